// Live pages without a framework: the server renders, this listens, reads the page again and puts in what changed.
import { drawCharts } from "/assets/charts.js";

const body = document.body;
const about = body.dataset.about;
let clock = Number(body.dataset.clock);
let clockAt = Date.now();
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

function tick() {
  const now = Date.now();
  const chain = clock + (clock ? (now - clockAt) / 1000 : 0);
  for (const item of document.querySelectorAll("[data-until]")) {
    const left = Number(item.dataset.until) - chain;
    const text = left > 0 ? span(left) : "any moment";
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
  // An id is no number, though it may look like one: 38e0.
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
  rows.sort((a, b) => way * compare(value(a, column), value(b, column)));
  table.tBodies[0].append(...rows);
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (at === column) head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
}

function prepareTables() {
  document.querySelectorAll("table[data-sort]").forEach((table, number) => {
    const name = `${table.closest("[id]").id}.${number}`;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.dataset.key = column;
      head.tabIndex = 0;
      const turn = () => {
        const known = sorted.get(name);
        const way = known && known.column === column ? -known.way : head.classList.contains("num") ? -1 : 1;
        sorted.set(name, { column, way });
        sort(table, column, way);
      };
      head.onclick = turn;
      head.onkeydown = (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          turn();
        }
      };
    });
    const known = sorted.get(name);
    if (known) sort(table, known.column, known.way);
  });
}

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

// --- what is new ---------------------------------------------------------------------------------

let reading = false;
let again = false;
let later = 0;

function prepare() {
  prepareTables();
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
    let changed = false;
    // Parts that come or go, as the loss does with the first closed round, change the page as a whole.
    const ids = (page) => [...page.querySelectorAll("main [data-live]")].map((part) => part.id).join();
    if (ids(fresh) !== ids(document)) {
      document.querySelector("main").replaceWith(fresh.querySelector("main"));
      changed = true;
    } else {
      for (const part of fresh.querySelectorAll("[data-live]")) {
        const old = document.getElementById(part.id);
        if (!old || old.dataset.was === part.outerHTML) continue;
        const open = [...old.querySelectorAll("details[open]")].map((item) => item.id);
        const text = part.outerHTML;
        if (old.dataset.chart) {
          old.dataset.series = part.dataset.series;
        } else {
          old.replaceWith(part);
          for (const id of open) document.getElementById(id)?.setAttribute("open", "");
        }
        document.getElementById(part.id).dataset.was = text;
        changed = true;
      }
    }
    clock = Number(fresh.body.dataset.clock);
    clockAt = Date.now();
    if (changed) prepare();
  } catch {
    // The console itself is away: the stream says when it is back.
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

function show(head) {
  document.getElementById("height").textContent = head.height.toLocaleString("en");
  const beat = document.getElementById("beat");
  const away = document.getElementById("away");
  beat.classList.toggle("off", Boolean(head.away) || !head.height);
  if (head.height !== shown) {
    shown = head.height;
    beat.classList.remove("now");
    requestAnimationFrame(() => beat.classList.add("now"));
  }
  if (head.clock) {
    clock = head.clock;
    clockAt = Date.now();
  }
  if (head.away && !head.height) {
    away.textContent = `Nothing is known yet: ${head.away}. The page begins when it does.`;
  } else if (head.away) {
    away.textContent = `The node does not answer (${head.away}). What you see is what it said last; the page goes on when it is back.`;
  } else if (head.behind) {
    away.textContent = `Reading the chain's history: ${head.behind} events to go.`;
  } else if (!head.height) {
    away.textContent = "Waiting for the node …";
  }
  away.hidden = !(head.away || head.behind || !head.height);
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
    const back = !document.getElementById("away").hidden && !head.away && !head.behind && head.height;
    show(head);
    if (back) soon();
    // Blocks without events change little, and only on pages that show blocks.
    if (!about && moved && location.pathname === "/") soon(1000);
  });
  stream.addEventListener("again", () => location.reload());
  stream.onerror = () => {
    document.getElementById("beat").classList.add("off");
    // A stream that the server refused is not tried again by the browser itself.
    if (stream && stream.readyState === EventSource.CLOSED) {
      stream = null;
      setTimeout(listen, 3000);
    }
  };
}

// A browser opens few connections to one server: a page that nobody looks at needs none.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
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
prepare();
listen();
