"use strict";
(() => {
  const ink = { labelColor: "currentColor", titleColor: "currentColor", tickColor: "currentColor",
    domainColor: "currentColor", subtitleColor: "currentColor", gridColor: "#808080", gridOpacity: 0.25 };
  const config = { background: "transparent", axis: ink, legend: ink, title: { ...ink, color: "currentColor", anchor: "start", frame: "group", offset: 8 },
    view: { stroke: "#88888855" }, style: { "guide-label": { fill: "currentColor" },
    "guide-title": { fill: "currentColor" }, "group-title": { fill: "currentColor" } },
    text: { color: "currentColor" }, rule: { color: "currentColor" } };
  for (const place of document.querySelectorAll("[data-spec]")) {
    const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
    // ast: expressions are interpreted, never compiled, so the page can forbid evaluation
    window.vegaEmbed(place, spec, { ast: true, actions: false, renderer: "svg", config, tooltip: { theme: "dark" } })
      .catch((error) => { place.textContent = "This chart could not be drawn: " + error.message; });
  }
  const tool = (name, text) => {
    const button = document.createElement("button");
    button.type = "button"; button.textContent = text; button.className = name; return button;
  };
  // a cell that a spreadsheet would take for a formula is kept from being one
  const cell = (text) => `"${(/^[=+\-@\t\r']/.test(text) ? "'" + text : text).replaceAll('"', '""')}"`;
  const save = (name, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" })); link.download = name;
    link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const named = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "table";
  // a list in pages, with a field that keeps only what holds its text
  const paged = (box, items, size, said, before) => {
    let from = 0, found = items;
    const tools = document.createElement("div"), field = document.createElement("input");
    const count = document.createElement("span"), label = document.createElement("label");
    const back = tool("back", `Earlier ${said}`), on = tool("on", `Further ${said}`);
    tools.className = "tools"; field.type = "search"; count.setAttribute("aria-live", "polite");
    label.append(`Only ${said} with `, field);
    tools.append(label, back, on, count);
    before.before(tools);
    const text = new Map(items.map((item) => [item, item.textContent.toLowerCase()]));
    const show = () => {
      const here = new Set(found.slice(from, from + size));
      for (const item of items) item.classList.toggle("away", !here.has(item));
      back.disabled = from === 0; on.disabled = from + size >= found.length;
      count.textContent = found.length
        ? `${said} ${from + 1} to ${Math.min(from + size, found.length)} of ${found.length}` : `no ${said.slice(0, -1)}`;
    };
    const look = () => {
      const wanted = field.value.toLowerCase(); from = 0;
      found = items.filter((item) => text.get(item).includes(wanted)); show();
    };
    field.addEventListener("input", look);
    back.addEventListener("click", () => { from = Math.max(0, from - size); show(); });
    on.addEventListener("click", () => { from += size; show(); });
    show();
    return { tools, order(sorted) { items = sorted; look(); },
      reveal(item) { field.value = ""; look(); from = Math.floor(items.indexOf(item) / size) * size; show(); } };
  };
  for (const box of document.querySelectorAll(".table")) {
    const size = Number(box.dataset.rows), rows = [...box.querySelectorAll("tbody tr")];
    const pages = rows.length > size ? paged(box, rows, size, "rows", box.querySelector("table")) : null;
    if (rows.length < 2) continue;
    const heads = [...box.querySelectorAll("thead th")].map((head) => head.textContent);
    const keep = tool("save", "Save as CSV");
    keep.addEventListener("click", () => {
      // a number goes out as it is sorted, whole and without its unit
      const said = (one) => one.dataset.value ?? cell(one.textContent.trim());
      const lines = [heads.map(cell), ...[...box.querySelectorAll("tbody tr")].map((row) => [...row.cells].map(said))];
      save(`${named(box.querySelector("caption").textContent)}.csv`, lines.map((line) => line.join(",")).join("\n") + "\n");
    });
    if (pages) pages.tools.append(keep); else box.append(keep);
    const value = (row, at) => row.cells[at].dataset.value;
    box.querySelectorAll("thead th").forEach((head, at) => {
      if (!rows.some((row) => value(row, at) !== undefined)) return;
      const button = tool("sort", head.textContent);
      head.textContent = ""; head.append(button);
      button.title = "Sort by this column";
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        for (const other of box.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sorted = [...rows].sort((one, other) => {
          const a = value(one, at), b = value(other, at);
          if (a === "" || b === "") return (a === "") - (b === "");
          return down ? b - a : a - b;
        });
        box.querySelector("tbody").append(...sorted);
        if (pages) pages.order(sorted);
      });
    });
  }
  const listed = new Map();
  for (const box of document.querySelectorAll(".cases")) {
    const cases = [...box.querySelectorAll(".case")], size = Number(box.dataset.size);
    if (cases.length <= size) continue;
    const pages = paged(box, cases, size, "cases", box);
    for (const one of cases) listed.set(one, pages);
  }
  const tabs = [...document.querySelectorAll(".tab")];
  const names = tabs.map((tab) => document.getElementById(`${tab.id}-tab`));
  const open = (at) => {
    tabs.forEach((tab, n) => tab.classList.toggle("shut", n !== at));
    names.forEach((name, n) => { name.setAttribute("aria-selected", String(n === at)); name.tabIndex = n === at ? 0 : -1; });
  };
  const follow = () => {
    const wanted = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!wanted) return;
    const at = tabs.findIndex((tab) => tab.contains(wanted));
    if (at >= 0) open(at);
    const one = wanted.closest(".case");
    if (listed.has(one)) listed.get(one).reveal(one);
    if (at >= 0 && wanted !== tabs[at]) wanted.scrollIntoView();
  };
  if (tabs.length) {
    document.querySelector(".tabs").setAttribute("role", "tablist");
    names.forEach((name, n) => {
      name.parentElement.setAttribute("role", "presentation");
      name.setAttribute("role", "tab"); name.setAttribute("aria-controls", tabs[n].id); tabs[n].setAttribute("role", "tabpanel");
      name.addEventListener("click", () => open(n));
      name.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = (n + step + tabs.length) % tabs.length;
        open(next); names[next].focus(); event.preventDefault();
      });
    });
    open(0);
    window.addEventListener("hashchange", follow);
    follow();
  }
})();
