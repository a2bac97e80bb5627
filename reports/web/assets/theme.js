// Chooses between light and dark: as the system says, until the button says otherwise.
const system = matchMedia("(prefers-color-scheme: dark)");
const themeListeners = [];

function look() {
  return document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
}

function showLook() {
  byId("theme").textContent = look() === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Use ${look() === "dark" ? "light" : "dark"} colours`);
  for (const listener of themeListeners) listener();
}

function startTheme() {
  const wanted = state.get("theme");
  if (wanted === "dark" || wanted === "light") document.documentElement.dataset.theme = wanted;
  byId("theme").addEventListener("click", () => {
    const next = look() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    setState({ theme: next });
    showLook();
  });
  system.addEventListener("change", showLook);
  showLook();
}
