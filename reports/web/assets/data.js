// Reads the blocks of data, each when it is first needed.
const blocks = new Map();

function block(id) {
  if (!blocks.has(id)) blocks.set(id, JSON.parse(byId(id).textContent));
  return blocks.get(id);
}

const cellData = block("cell-data");
const columns = new Map(cellData.columns.map((column) => [column.name, column]));

function codeOf(column, index) {
  return typeof column.codes === "number" ? column.codes : column.codes[index];
}

function word(column, index) {
  const code = codeOf(column, index);
  return code < 0 ? "" : column.words[code];
}

// The text of a cell in a column, as the table shows it.
function textOf(name, index) {
  const column = columns.get(name);
  if (!column) return "";
  return column.texts ? column.texts[index] : word(column, index);
}

function numberOf(name, index) {
  const column = columns.get(name);
  return column && column.numbers ? column.numbers[index] : null;
}

// passed, failed or skipped.
function outcomeOf(index) {
  const status = textOf("status", index);
  return status === "PASSED" ? "passed" : status === "SKIPPED" ? "skipped" : "failed";
}

function distinct(name) {
  const column = columns.get(name);
  if (!column) return [];
  if (column.words) return [...column.words].filter((value) => value !== "").sort();
  return [...new Set(column.numbers)].filter((value) => value !== null).sort((one, other) => one - other);
}
