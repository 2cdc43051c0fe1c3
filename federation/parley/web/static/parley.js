// The pages work without this file; with it they follow the run, filter while typing, and read figures under the pointer.
"use strict";

const MOST_LINES = 400;
const FOCUSABLE = "a, button, input, [tabindex]";
const AGAIN_MILLISECONDS = 1500;
const LATER_MILLISECONDS = 10000;
const LEAST_MILLISECONDS = 1000; // between two refreshes of the figures

function signInByLink() {
  const form = document.getElementById("login");
  if (!form || location.hash.length < 20) return;
  form.elements.token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  form.submit();
}

function replaceParts(markup) {
  const fresh = new DOMParser().parseFromString(markup, "text/html");
  for (const part of fresh.querySelectorAll("[id^=part-]")) {
    const held = document.getElementById(part.id);
    if (held && held.innerHTML !== part.innerHTML) {
      const place = [...held.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
      const scrolled = [...held.querySelectorAll(".scroll")].map((each) => each.scrollTop);
      held.replaceChildren(...part.childNodes);
      held.querySelectorAll(".scroll").forEach((each, index) => { each.scrollTop = scrolled[index] || 0; });
      if (place >= 0) held.querySelectorAll(FOCUSABLE)[place]?.focus({ preventScroll: true });
    }
  }
  document.querySelectorAll("#live .area").forEach(readFigures);
}

function followRun(live) {
  const address = live.dataset.run;
  let due = null, last = 0;
  async function refresh() {
    due = null;
    last = Date.now();
    const answer = await fetch(address + "?part=live", { redirect: "error" }).catch(() => null);
    if (answer && answer.ok) replaceParts(await answer.text());
  }
  function soon() {
    if (due === null) due = setTimeout(refresh, Math.max(0, last + LEAST_MILLISECONDS - Date.now()));
  }
  const lines = document.getElementById("lines");
  const source = new EventSource(`${address}/events?seen=${lines.dataset.seen}`);
  source.addEventListener("changed", soon);
  source.addEventListener("line", (event) => addLine(lines, JSON.parse(event.data)));
  document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });
  setInterval(() => { if (!document.hidden) soon(); }, 5000); // pools, whom a round waits for, an accountant's answer
  setTimeout(soon, 1500);
}

function addLine(lines, markup) {
  const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
  const fresh = new DOMParser().parseFromString("<ol>" + markup + "</ol>", "text/html").querySelector("li");
  lines.append(fresh);
  while (lines.children.length > MOST_LINES) lines.firstElementChild.remove();
  filterLines();
  if (atEnd) lines.scrollTop = lines.scrollHeight;
}

function filterLines() {
  const words = document.getElementById("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const level = document.getElementById("level").value;
  const admitted = { "": ["debug", "info", "warning", "error"], warning: ["warning", "error"], error: ["error"] }[level];
  let shown = 0;
  for (const line of document.getElementById("lines").children) {
    const text = line.textContent.toLowerCase();
    line.hidden = !admitted.includes(line.className) || !words.every((word) => text.includes(word));
    shown += line.hidden ? 0 : 1;
  }
  document.getElementById("nothing").hidden = shown > 0;
}

function readFigures(area) {
  if (!area.dataset.series || area.dataset.read) return;
  area.dataset.read = "yes";
  const first = Number(area.dataset.first), last = Number(area.dataset.last);
  const series = area.dataset.series.split(";").map((each) => {
    const [name, points] = each.split("|");
    return { name, points: points.split(" ").map((point) => point.split(",").map(Number)) };
  });
  const shown = document.createElement("p");
  shown.className = "reading";
  area.after(shown);
  area.addEventListener("pointermove", (event) => {
    const box = area.getBoundingClientRect();
    const x = first + ((event.clientX - box.left) / box.width) * (last - first);
    const said = [];
    let at = x;
    for (const { name, points } of series) {
      const near = points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
      if (points.length > 2 && Math.abs(near[0] - x) > (last - first) / 20) continue;
      if (points.length > 2) at = near[0];
      said.push(`${name} ${near[1].toPrecision(4)}`);
    }
    area.querySelector(".cross").setAttribute("d", `M${((at - first) / (last - first)) * 600} 0V200`);
    shown.textContent = said.length ? `round ${Math.round(at)}: ${said.join(", ")}` : "";
  });
  area.addEventListener("pointerleave", () => {
    area.querySelector(".cross").setAttribute("d", "");
    shown.textContent = "";
  });
}

// Something is being computed: the page is fetched again and its content exchanged, which interrupts nobody.
async function again() {
  const answer = await fetch(location.pathname, { redirect: "error" }).catch(() => null);
  if (!answer || !answer.ok) { setTimeout(again, LATER_MILLISECONDS); return; } // a busy machine, or a page that restarts
  const main = document.getElementById("main");
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
  const place = [...main.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  main.replaceChildren(...fresh.childNodes);
  if (place >= 0) main.querySelectorAll(FOCUSABLE)[place]?.focus({ preventScroll: true });
  printButtons();
  if (main.querySelector("[data-again]")) setTimeout(again, AGAIN_MILLISECONDS);
}

function printButtons() {
  document.querySelectorAll("[data-print]").forEach((button) => button.addEventListener("click", () => window.print()));
}

function start() {
  signInByLink();
  printButtons();
  document.querySelectorAll(".area").forEach(readFigures);
  if (document.querySelector("[data-again]")) setTimeout(again, AGAIN_MILLISECONDS);
  const live = document.getElementById("live");
  if (!live) return;
  const form = document.querySelector("form.filter");
  const asked = new URLSearchParams(location.search);
  form.elements.filter.value = asked.get("filter") || "";
  form.elements.level.value = asked.get("level") || "";
  form.querySelector("button").hidden = true;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", filterLines);
  const lines = document.getElementById("lines");
  lines.scrollTop = lines.scrollHeight;
  filterLines();
  followRun(live);
}

start();
