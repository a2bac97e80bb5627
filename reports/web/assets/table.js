// Shows the cells that pass the filters, sorted, a page at a time.
const pageRows = 100;
const tableColumns = ["operator", "variant", "backend", "dtype", "size", "time", "ratio", "interval", "status", "roof", "budget", "place", "device", "kind"];
const minorColumns = new Set(["variant", "dtype", "interval", "roof", "budget", "place", "device", "kind"]);
const columnHints = {
  time: "median time of a call, over processes", ratio: "time divided by the time of jnp in the same process; =: they cannot be told apart",
  interval: "95 % interval of the ratio", roof: "share of the measured bandwidth", budget: "share of the error bound that was used; 100 % is the limit",
  size: "nominal number of elements", place: "first place among the backends of one operator, dtype and size",
};
let foundCells = [];

function shownColumns() {
  return tableColumns.filter((name) => {
    const column = columns.get(name);
    if (!column) return false;
    return !(["kind", "device"].includes(name) && column.words.length < 2);
  });
}

function passes(index) {
  for (const name of filterNames) {
    const wanted = state.get(name);
    if (!wanted) continue;
    if (name === "search") {
      const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
      const said = searchText(index);
      if (!words.every((each) => said.includes(each))) return false;
    } else if (name === "outcome") {
      if (outcomeOf(index) !== wanted && textOf("status", index) !== wanted) return false;
    } else if (name === "size") {
      if (String(numberOf("size", index)) !== wanted) return false;
    } else if (textOf(name, index) !== wanted) return false;
  }
  return true;
}

const searched = new Map();
function searchText(index) {
  if (!searched.has(index)) {
    searched.set(index, ["operator", "variant", "backend", "dtype", "size", "status", "place", "device", "kind"].map((name) => textOf(name, index)).join(" ").toLowerCase());
  }
  return searched.get(index);
}

function sortCells(found) {
  const name = state.get("sort");
  const column = columns.get(name);
  if (!column) return found;
  const down = state.get("order") === "down" ? -1 : 1;
  if (column.numbers) {
    return found.sort((one, other) => {
      const [a, b] = [column.numbers[one], column.numbers[other]];
      if (a === null || b === null) return (a === null) - (b === null) || one - other; // what is missing comes last
      return (a - b) * down || one - other;
    });
  }
  const order = [...column.words.keys()].sort((one, other) => (column.words[one] < column.words[other] ? -1 : 1));
  const rank = [];
  order.forEach((code, place) => { rank[code] = place; });
  return found.sort((one, other) => (rank[codeOf(column, one)] - rank[codeOf(column, other)]) * down || one - other);
}

function header(name) {
  const column = columns.get(name);
  const isSorted = state.get("sort") === name;
  const down = state.get("order") === "down";
  const button = make("button", { type: "button", title: columnHints[name] }, column.title,
    make("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (down ? "\u2193" : "\u2191") : ""));
  button.addEventListener("click", () => {
    setState(!isSorted ? { sort: name, order: null, page: null } : !down ? { order: "down", page: null } : { sort: null, order: null, page: null });
    document.querySelector(`#cell-table th[data-name="${name}"] button`)?.focus();
  });
  const css = [column.numbers ? "right" : "left", minorColumns.has(name) ? "minor" : ""].join(" ");
  return make("th", { scope: "col", class: css, "data-name": name, "aria-sort": isSorted ? (down ? "descending" : "ascending") : null }, button);
}

function bodyCell(name, index, place) {
  const text = textOf(name, index);
  const css = [columns.get(name).numbers ? "right" : "left", minorColumns.has(name) ? "minor" : ""].join(" ");
  if (place === 0) {
    const button = make("button", { type: "button", class: "open", "aria-haspopup": "dialog" }, text);
    return make("th", { scope: "row", class: css }, button);
  }
  if (name === "status") return make("td", { class: css }, make("span", { class: `status ${outcomeOf(index)}` }, text));
  return make("td", { class: css }, text);
}

function showTable() {
  const names = shownColumns();
  foundCells = [];
  for (let index = 0; index < cellData.count; index++) if (passes(index)) foundCells.push(index);
  sortCells(foundCells);
  const pages = Math.max(1, Math.ceil(foundCells.length / pageRows));
  const page = Math.min(pages, Math.max(1, Number(state.get("page")) || 1));
  const first = (page - 1) * pageRows;
  const own = foundCells.slice(first, first + pageRows);
  const table = byId("cell-table");
  table.tHead.replaceChildren(make("tr", {}, names.map(header)));
  table.tBodies[0].replaceChildren(...own.map((index) => {
    const row = make("tr", { "data-cell": index }, names.map((name, place) => bodyCell(name, index, place)));
    return row;
  }));
  const count = foundCells.length.toLocaleString("en");
  const all = cellData.count.toLocaleString("en");
  byId("found").textContent = !foundCells.length ? "No cell fits all filters. Clear one of them."
    : `${foundCells.length === cellData.count ? count : `${count} of ${all}`} cells${pages > 1 ? `, ${(first + 1).toLocaleString("en")} to ${(first + own.length).toLocaleString("en")} shown` : ""}`;
  showPager(page, pages);
}

function showPager(page, pages) {
  const step = (words, target) => {
    const button = make("button", { type: "button", disabled: target < 1 || target > pages }, words);
    button.addEventListener("click", () => { setState({ page: target > 1 ? target : null }); byId("cell-table").scrollIntoView(); });
    return button;
  };
  byId("pager").replaceChildren(...(pages < 2 ? [] : [step("Previous", page - 1), make("span", {}, `page ${page} of ${pages}`), step("Next", page + 1)]));
}

function startTable() {
  byId("cell-table").tBodies[0].addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-cell]");
    if (row && !String(getSelection())) setState({ cell: row.dataset.cell });
  });
  listeners.push((names) => names.some((name) => filterNames.includes(name) || ["sort", "order", "page"].includes(name)) && showTable());
  showTable();
}
