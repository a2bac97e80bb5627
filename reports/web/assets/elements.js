// Builds elements. Text goes in as text: nothing here takes markup.
const byId = (id) => document.getElementById(id);

function make(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child);
  }
  return made;
}

function choice(label, name, entries, chosen, changed) {
  const select = make("select", { name });
  for (const [value, words] of entries) select.append(make("option", { value, selected: value === chosen }, words));
  select.addEventListener("change", () => changed(select.value));
  return make("label", { class: "field" }, label, select);
}

function scrolling(label, table) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
}
