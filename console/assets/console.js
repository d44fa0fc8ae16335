// Live pages without a framework: the server renders pages; this script listens, loads them again and patches changes.
import { drawCharts } from "./charts.js";
import "./job-file.js";

const body = document.body;
const about = body.dataset.about;
let clock = 0;
let clockMost = 0;
let clockAt = 0;
let next = Number(body.dataset.next);

// --- times ---------------------------------------------------------------------------------------

function span(seconds) {
  const s = Math.abs(seconds);
  const round = (value) => value.toFixed(1).replace(".0", "");
  if (s < 100) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${round(s / 3600)} h`;
  return `${round(s / 86400)} days`;
}

// Without blocks, the chain clock advances at most by the step that the next block may make.
function setClock(now, most) {
  clock = Number(now);
  clockMost = Number(most);
  clockAt = Date.now();
}

function tick() {
  const now = Date.now();
  const chain = Math.min(clock + (now - clockAt) / 1000, clockMost);
  for (const item of document.querySelectorAll("[data-until]")) {
    const left = Number(item.dataset.until) - chain;
    const text = span(Math.max(0, left));
    if (item.textContent !== text) item.textContent = text;
    item.classList.toggle("past", left <= 0);
  }
  for (const item of document.querySelectorAll("[data-ago]")) {
    const text = `${span((now - Number(item.dataset.ago)) / 1000)} ago`;
    if (item.textContent !== text) item.textContent = text;
  }
}

// --- tables --------------------------------------------------------------------------------------

const sorted = new Map();

function value(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  // An id is not a number, though it may look like one: 38e0.
  const counts = cell.dataset.value !== undefined || cell.classList.contains("num");
  const number = counts && text !== "" ? Number(text.replace(/[, ]/g, "")) : Number.NaN;
  return Number.isNaN(number) ? text.toLowerCase() : number;
}

function compare(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}

function sort(table, column, way) {
  const rows = [...table.tBodies[0].rows].filter((row) => row.cells.length > column);
  const before = [...rows];
  rows.sort((a, b) => way * compare(value(a, column), value(b, column)));
  if (rows.some((row, at) => row !== before[at])) table.tBodies[0].append(...rows);
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (at === column) head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
}

// Column heads become buttons, for keyboards and screen readers; rows keep the chosen order.
function prepareTables(page) {
  page.querySelectorAll("table[data-sort]").forEach((table, number) => {
    const name = `${table.closest("[id]").id}.${number}`;
    table.dataset.name = name;
    for (const head of table.tHead.rows[0].cells) {
      if (head.querySelector("button")) continue;
      const button = page.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
    }
    const known = sorted.get(name);
    if (known) sort(table, known.column, known.way);
  });
}

document.addEventListener("click", (event) => {
  const head = event.target.closest(".sort")?.closest("th");
  if (!head) return;
  const table = head.closest("table");
  const column = head.cellIndex;
  const known = sorted.get(table.dataset.name);
  const way = known && known.column === column ? -known.way : head.classList.contains("num") ? -1 : 1;
  sorted.set(table.dataset.name, { column, way });
  sort(table, column, way);
});

// --- copying -------------------------------------------------------------------------------------

document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  event.preventDefault();
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1200);
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  document.querySelector(".find input").focus();
});

// --- updates -------------------------------------------------------------------------------------

// Changes are patched into the page node by node, so that focus, selection, scroll position and typed text stay.

// A row is identified by the text of its first cell, another element by its id, and the rest by position.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  return node.id || (node.localName === "tr" ? node.cells[0]?.textContent.trim() ?? "" : "");
}

function change(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if ("keep" in old.dataset) return;
  for (const { name, value } of fresh.attributes) {
    if (name === "class" && old.classList.contains("done")) continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    // Details that the reader opened stay open.
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  if (!old.dataset.chart) changeInside(old, fresh);
}

function changeInside(old, fresh) {
  const wanted = new Set([...fresh.childNodes].map(keyOf));
  const known = new Map();
  for (const node of [...old.childNodes]) {
    const key = keyOf(node);
    if (!key) continue;
    if (!wanted.has(key)) node.remove();
    else known.set(key, [...(known.get(key) ?? []), node]);
  }
  let at = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    const key = keyOf(node);
    let match = key ? known.get(key)?.shift() : at;
    while (!key && match && keyOf(match)) match = match.nextSibling;
    if (!match || match.nodeName !== node.nodeName) {
      old.insertBefore(node, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    change(match, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

let reading = false;
let again = false;
let later = 0;

function prepare() {
  prepareTables(document);
  drawCharts();
  tick();
}

async function read() {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = document.activeElement;
    prepareTables(fresh);
    for (const id of ["where", "main"]) change(document.getElementById(id), fresh.getElementById(id));
    if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
    setClock(fresh.body.dataset.clock, fresh.body.dataset.clockMost);
    prepare();
  } catch {
    // The console does not answer. The stream notices when it answers again.
  } finally {
    reading = false;
    if (again) {
      again = false;
      soon();
    }
  }
}

function soon(wait = 350) {
  if (later) return;
  later = setTimeout(() => {
    later = 0;
    read();
  }, wait);
}

// --- the stream ----------------------------------------------------------------------------------

let stream = null;
let shown = 0;
let lost = 0;

function show(head) {
  document.getElementById("height").textContent = head.height.toLocaleString("en");
  const beat = document.getElementById("beat");
  const away = document.getElementById("away");
  beat.classList.toggle("off", Boolean(head.notice));
  if (head.height !== shown) {
    shown = head.height;
    beat.classList.remove("now");
    requestAnimationFrame(() => beat.classList.add("now"));
  }
  if (head.clock) setClock(head.clock, head.clock_most);
  away.textContent = head.notice;
  away.hidden = !head.notice;
}

function listen() {
  if (stream) return;
  stream = new EventSource(`/stream?since=${next}`);
  stream.addEventListener("change", (event) => {
    next = Number(event.lastEventId) + 1;
    body.dataset.next = next;
    if (!about || JSON.parse(event.data).order === about) soon();
  });
  stream.addEventListener("trace", (event) => {
    if (JSON.parse(event.data).order === about) soon();
  });
  stream.addEventListener("head", (event) => {
    const head = JSON.parse(event.data);
    const moved = head.height !== shown;
    const back = !document.getElementById("away").hidden && !head.notice;
    show(head);
    if (back) soon();
    // Blocks without events change little, and only on pages that show blocks.
    if (!about && moved && ["/", "/blocks"].includes(location.pathname)) soon(1000);
  });
  stream.addEventListener("again", () => location.reload());
  stream.onopen = () => {
    clearTimeout(lost);
    lost = 0;
  };
  stream.onerror = () => {
    document.getElementById("beat").classList.add("off");
    // Streams end regularly and connect again within a second, so the notice waits.
    lost ||= setTimeout(() => {
      const away = document.getElementById("away");
      away.textContent = "The console does not answer, and you see its last data. Start it again with assay console; the page then continues.";
      away.hidden = false;
    }, 2500);
    // The browser does not retry a stream that the server refused.
    if (stream && stream.readyState === EventSource.CLOSED) {
      stream = null;
      setTimeout(listen, 3000);
    }
  };
}

// A browser limits its connections per server, so hidden pages close theirs.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(lost);
    lost = 0;
    stream?.close();
    stream = null;
  } else {
    read();
    listen();
  }
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawCharts(true));
addEventListener("resize", () => drawCharts(true));
setInterval(tick, 1000);
setClock(body.dataset.clock, body.dataset.clockMost);
prepare();
listen();
