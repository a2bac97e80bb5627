// Keeps the state of the page in the fragment of its address, so that a link leads to the same view.
const state = new URLSearchParams(location.hash.slice(1));
const listeners = [];

function setState(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "" || value === undefined) state.delete(name);
    else state.set(name, String(value));
  }
  history.replaceState(null, "", `#${state}`);
  for (const listener of listeners) listener(Object.keys(changes));
}

function goTo(id) {
  const target = byId(id);
  if (!target) return;
  target.scrollIntoView();
  (target.querySelector(":scope > h2[tabindex]") ?? target).focus({ preventScroll: true });
}

// A link of the page changes the state that it names, and keeps the rest.
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  let wanted = link.getAttribute("href").slice(1);
  if (!wanted.includes("=")) wanted = `at=${wanted}`;
  const changes = Object.fromEntries(new URLSearchParams(wanted));
  // A link into the table replaces its filters.
  const cleared = changes.at === "cells" && Object.keys(changes).length > 1 ? filterNames : [];
  setState({ ...Object.fromEntries(cleared.map((name) => [name, null])), page: null, ...changes });
  goTo(changes.at);
});

const filterNames = ["kind", "operator", "variant", "backend", "dtype", "size", "device", "outcome", "place", "search"];

addEventListener("hashchange", () => {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const names = new Set([...state.keys(), ...wanted.keys()]);
  setState(Object.fromEntries([...names].map((name) => [name, wanted.get(name)])));
  if (wanted.get("at")) goTo(wanted.get("at"));
});

function markMenu() {
  const links = [...document.querySelectorAll(".menu a")];
  const sections = links.map((link) => byId(link.getAttribute("href").slice(4)));
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.isIntersecting ? seen.add(entry.target) : seen.delete(entry.target);
    const first = sections.findIndex((section) => seen.has(section));
    links.forEach((link, place) => (place === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  }, { rootMargin: "-15% 0px -55% 0px" });
  sections.forEach((section) => section && observer.observe(section));
}
