// Opens a cell: its numbers, its samples, the command that repeats it, and everything that was recorded.
const sheet = byId("cell");
let opener = null;

function figures(index) {
  const list = make("dl", { class: "figures" });
  const entries = [["time per call", "time"], ["fastest to slowest process", "low"], ["time / jnp", "ratio"], ["95% interval", "interval"],
    ["share of the roof", "roof"], ["error budget used", "budget"], ["place", "place"]];
  for (const [title, name] of entries) {
    const text = textOf(name, index);
    if (text) list.append(make("div", {}, make("dt", {}, title), make("dd", {}, text)));
  }
  return list.childElementCount ? list : null;
}

function samplesOf(processes) {
  const rows = processes.flatMap((process, place) => process.samples.map((sample, number) => ({
    process: String(place + 1), time_s: sample * 1e-6, place: number,
    median_s: number === 0 || number === process.samples.length - 1 ? process.median_us * 1e-6 : null, said: `process ${place + 1}, sample ${number + 1}: ${sample.toPrecision(4)} \u00b5s`,
  })));
  const figure = make("figure", { class: "chart", "data-chart": "samples" },
    make("figcaption", {}, make("p", { class: "faint" }, "A point for each sample, in the order taken; a line at the median of each process.")),
    make("div", { class: "plot" }));
  const head = ["process", "samples", "median", "least to greatest", "clock"];
  const body = processes.map((process, place) => make("tr", {}, make("th", { scope: "row" }, String(place + 1)),
    [String(process.samples.length), process.median, process.range, process.clock].map((text) => make("td", {}, text))));
  const kept = processes.some((process) => process.clock) ? head : head.slice(0, 4);
  const table = make("table", {}, make("thead", {}, make("tr", {}, kept.map((title) => make("th", { scope: "col" }, title)))), make("tbody", {}, body));
  if (kept.length < 5) body.forEach((row) => row.lastElementChild.remove());
  return { rows, parts: [make("h3", {}, "Samples by process"), figure, scrolling("Samples by process", table)], figure };
}

function factText(fact, text) {
  if (!fact.json) return [fact.unit ? `${text} ${fact.unit}` : text];
  let value = null;
  try { value = JSON.parse(text); } catch { return [text]; }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [text];
  const entries = Object.entries(value).filter(([, each]) => each !== null);
  if (!entries.length) return ["none"];
  return [make("dl", { class: "facts" }, entries.flatMap(([name, each]) => [make("dt", {}, name), make("dd", {}, typeof each === "object" ? JSON.stringify(each) : String(each))]))];
}

function factSections(details, index) {
  return details.sections.map((section) => {
    const list = make("dl", { class: "facts" });
    for (const fact of section.facts) {
      const text = word(fact, index);
      if (text !== "") list.append(make("dt", { title: fact.description }, fact.name.replaceAll("_", " ")), make("dd", {}, ...factText(fact, text)));
    }
    return list.childElementCount ? make("details", {}, make("summary", {}, section.title), list) : null;
  });
}

function reasonOf(details, index) {
  const outcome = details.sections.flatMap((section) => section.facts).find((fact) => fact.name === "reason");
  const text = outcome ? word(outcome, index) : "";
  if (!text) return [];
  const isSkipped = outcomeOf(index) === "skipped";
  return [make("h3", {}, isSkipped ? "Why it was skipped" : "Why it failed"), make("pre", { class: `reason ${outcomeOf(index)}`, tabindex: "0" }, text)];
}

function commandOf(details, index) {
  const text = word(details.commands, index);
  const button = make("button", { type: "button", class: "tool" }, "Copy");
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { getSelection().selectAllChildren(code); button.textContent = "Selected"; }
  });
  const code = make("pre", { tabindex: "0" }, text);
  return [make("h3", {}, "Run it again"), make("div", { class: "command" }, code, button)];
}

function showCell() {
  const given = state.get("cell");
  const index = given === null ? -1 : Number(given);
  if (!(index >= 0 && index < cellData.count)) {
    if (sheet.open) sheet.close();
    return;
  }
  const details = block("detail-data");
  const processes = details.processes[index];
  const samples = processes ? samplesOf(processes) : null;
  const title = [textOf("operator", index), textOf("variant", index), textOf("backend", index), textOf("dtype", index)].filter(Boolean).join(" \u00b7 ");
  const close = make("button", { type: "button", class: "tool", "aria-label": "Close" }, "Close");
  close.addEventListener("click", () => sheet.close());
  const place = foundCells.indexOf(index);
  const step = (words, target) => {
    const button = make("button", { type: "button", class: "tool", disabled: place < 0 || foundCells[target] === undefined }, words);
    button.addEventListener("click", () => setState({ cell: foundCells[target] }));
    return button;
  };
  for (const figure of sheet.querySelectorAll("figure")) removeChart(figure);
  sheet.replaceChildren(make("div", { class: "sheet" },
    make("div", { class: "sheet-head" },
      make("div", {}, make("h2", { id: "cell-title" }, title),
        make("p", { class: "faint" }, make("span", { class: `status ${outcomeOf(index)}` }, textOf("status", index)), ` ${textOf("size", index)} elements, ${textOf("device", index)}`)),
      make("div", { class: "sheet-tools" }, step("Previous", place - 1), step("Next", place + 1), close)),
    figures(index), reasonOf(details, index), samples ? samples.parts : null, commandOf(details, index),
    make("h3", {}, "Recorded"), factSections(details, index)));
  if (!sheet.open) {
    opener = document.querySelector(`tr[data-cell="${index}"] .open`);
    sheet.showModal();
  }
  sheet.scrollTop = 0;
  close.focus();
  if (samples) addChart(samples.figure, samples.rows);
}

function startDialog() {
  sheet.addEventListener("close", () => {
    setState({ cell: null });
    opener?.focus();
  });
  sheet.addEventListener("click", (event) => event.target === sheet && sheet.close());
  listeners.push((names) => names.includes("cell") && showCell());
  showCell();
}
