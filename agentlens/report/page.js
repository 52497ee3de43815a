"use strict";
(() => {
  const ink = { labelColor: "currentColor", titleColor: "currentColor", tickColor: "currentColor",
    domainColor: "currentColor", subtitleColor: "currentColor", gridOpacity: 0.25 };
  const config = { background: "transparent", axis: ink, legend: ink, title: { ...ink, color: "currentColor" },
    view: { stroke: "#88888855" }, style: { "guide-label": { fill: "currentColor" },
    "guide-title": { fill: "currentColor" }, "group-title": { fill: "currentColor" } } };
  for (const place of document.querySelectorAll("[data-spec]")) {
    const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
    // ast: expressions are interpreted, never compiled, so the page can forbid evaluation
    window.vegaEmbed(place, spec, { ast: true, actions: false, renderer: "svg", config, tooltip: { theme: "dark" } })
      .catch((error) => { place.textContent = "This chart could not be drawn: " + error.message; });
  }
  for (const box of document.querySelectorAll(".table")) {
    const size = Number(box.dataset.rows), rows = [...box.querySelectorAll("tbody tr")];
    if (rows.length <= size) continue;
    let from = 0, found = rows;
    const tools = document.createElement("div"), field = document.createElement("input");
    const said = document.createElement("span"), back = document.createElement("button");
    const on = document.createElement("button"), label = document.createElement("label");
    tools.className = "tools"; field.type = "search"; back.type = on.type = "button";
    back.textContent = "Earlier rows"; on.textContent = "Further rows"; said.setAttribute("aria-live", "polite");
    label.append("Only rows with ", field);
    tools.append(label, back, on, said);
    box.prepend(tools);
    const show = () => {
      const here = new Set(found.slice(from, from + size));
      for (const row of rows) row.classList.toggle("away", !here.has(row));
      back.disabled = from === 0; on.disabled = from + size >= found.length;
      said.textContent = found.length ? `rows ${from + 1} to ${Math.min(from + size, found.length)} of ${found.length}` : "no row";
    };
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase(); from = 0;
      found = rows.filter((row) => row.textContent.toLowerCase().includes(wanted)); show();
    });
    back.addEventListener("click", () => { from = Math.max(0, from - size); show(); });
    on.addEventListener("click", () => { from += size; show(); });
    show();
  }
})();
