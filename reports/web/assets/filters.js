// Builds the filters of the table of cells; a column with one value has none.
const filterTitles = { kind: "kind", operator: "operator", variant: "variant", backend: "backend", dtype: "dtype", size: "elements", device: "device", outcome: "status", place: "place" };

function startFilters() {
  const form = byId("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  const entriesOf = (name) => {
    if (name === "outcome") return [...["passed", "failed", "skipped"].filter((each) => outcomes.has(each)), ...distinct("status").filter((each) => !["PASSED", "SKIPPED"].includes(each))];
    return distinct(name);
  };
  const outcomes = new Set(Array.from({ length: cellData.count }, (_, index) => outcomeOf(index)));
  const search = make("input", { type: "search", name: "search", placeholder: "words in any column", autocomplete: "off" });
  let timer = 0;
  search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => setState({ search: search.value.trim(), page: null }), 120); });
  form.append(make("label", { class: "field search" }, "search", search));
  for (const [name, title] of Object.entries(filterTitles)) {
    const values = entriesOf(name);
    if (values.length < 2) continue;
    const entries = [["", "all"], ...values.map((value) => [String(value), typeof value === "number" ? value.toLocaleString("en") : value])];
    form.append(choice(title, name, entries, state.get(name) ?? "", (value) => setState({ [name]: value, page: null })));
  }
  const clear = make("button", { type: "button", class: "tool" }, "Clear");
  clear.addEventListener("click", () => setState({ ...Object.fromEntries(filterNames.map((name) => [name, null])), page: null }));
  form.append(clear);
  const show = () => {
    for (const select of form.querySelectorAll("select")) {
      select.value = state.get(select.name) ?? "";
      select.parentElement.classList.toggle("set", select.value !== "");
    }
    if (document.activeElement !== search) search.value = state.get("search") ?? "";
    clear.hidden = !filterNames.some((name) => state.get(name));
  };
  listeners.push(show);
  show();
}
