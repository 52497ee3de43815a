"use strict";
(() => {
  const columns = ["item", "run_id", "agent", "decision", "onset_seq", "onset_hi_seq", "end_seq", "kind", "reviewer"];
  const items = [...document.querySelectorAll(".ask")];
  const bar = document.createElement("div"), who = document.createElement("input"), label = document.createElement("label");
  const said = document.createElement("span"), save = document.createElement("button");
  bar.className = "tools"; said.setAttribute("aria-live", "polite");
  save.type = "button"; save.textContent = "Save decisions as CSV"; who.type = "text"; who.required = true;
  label.append("Reviewer ", who); bar.append(label, save, said);
  document.getElementById("content").prepend(bar);
  const value = (item, name) => {
    // places belong to an incident; one that was typed before the decision changed is left out
    if (name.endsWith("_seq") && value(item, "decision") !== "incident") return "";
    const picked = item.querySelector(`[name^="${name}-"]:checked`) || item.querySelector(`input[type=text][name="${name}"]`);
    return picked ? picked.value.trim() : "";
  };
  // a cell that a spreadsheet would take for a formula is kept from being one
  const cell = (text) => `"${(/^[=+\-@\t\r']/.test(text) ? "'" + text : text).replaceAll('"', '""')}"`;
  const decided = () => items.filter((item) => value(item, "decision"));
  const tell = () => { said.textContent = `${decided().length} of ${items.length} decided`; };
  document.addEventListener("change", tell);
  save.addEventListener("click", () => {
    if (!who.value.trim()) { said.textContent = "Say who reviews."; who.focus(); return; }
    const rows = decided().map((item) => columns.map((name) => cell(
      name === "reviewer" ? who.value.trim() : name === "decision" ? value(item, name) : item.dataset[name] ?? value(item, name))));
    const text = [columns.join(","), ...rows.map((row) => row.join(","))].join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" })); link.download = "decisions.csv";
    link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  tell();
})();
