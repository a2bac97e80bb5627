// Starts the parts of the page.
function startSwitches() {
  for (const group of document.querySelectorAll("[data-switch]")) {
    const name = group.dataset.switch;
    const show = () => {
      const chosen = group.querySelector("input:checked").value;
      for (const panel of document.querySelectorAll(`[data-panel^="${name}:"]`)) panel.hidden = panel.dataset.panel !== `${name}:${chosen}`;
    };
    const wanted = [...group.querySelectorAll("input")].find((input) => input.value === state.get(name));
    if (wanted) wanted.checked = true;
    group.addEventListener("change", () => { setState({ [name]: group.querySelector("input:checked").value }); show(); });
    show();
  }
}

startTheme();
startSwitches();
startFilters();
startTable();
startDrawing();
startTimeCharts();
startDialog();
markMenu();
if (state.get("at")) goTo(state.get("at"));
document.documentElement.dataset.readyMs = performance.now().toFixed(0);
document.documentElement.dataset.ready = "yes";
