"use strict";
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const asked = new URLSearchParams(window.location.search).get("theme");
  let chosen = data.themes[asked] ? asked : "auto";
  const hidden = new Set();
  const drawn = new Set();
  const config = { displaylogo: false, responsive: true, modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };

  const theme = () => (chosen === "auto" ? (system.matches ? "dark" : "light") : chosen);

  const faint = (hex) => {
    const part = (at) => parseInt(hex.slice(at, at + 2), 16);
    return `rgba(${part(1)},${part(3)},${part(5)},0.18)`;
  };

  const paint = {
    line: (trace, colour) => { trace.line.color = colour; trace.marker.color = colour; },
    edge: () => {},
    band: (trace, colour) => { trace.fillcolor = faint(colour); },
    dots: (trace, colour) => { trace.marker.color = colour; },
    estimate: (trace, colour, look) => {
      trace.marker.color = colour;
      trace.marker.line = { color: look.text, width: 1.5 };
      if (trace.error_x) trace.error_x.color = colour;
    },
    part: (trace, colour, look) => {
      trace.marker.color = colour;
      Object.assign(trace.marker.pattern, { bgcolor: colour, fgcolor: look.ground });
    },
  };

  const painted = (spec) => {
    const look = data.themes[theme()];
    const copy = structuredClone(spec);
    for (const trace of copy.data) {
      const colour = look.colours[trace.meta.place % look.colours.length];
      paint[trace.meta.role](trace, colour, look);
      if (trace.meta.role !== "part") trace.visible = !hidden.has(trace.meta.place);
    }
    const layout = copy.layout;
    Object.assign(layout, { paper_bgcolor: look.ground, plot_bgcolor: look.ground });
    layout.font = { color: look.text, size: 12 };
    layout.hoverlabel = { bgcolor: look.wash, bordercolor: look.edge, font: { color: look.text }, align: "left" };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: look.soft, activecolor: look.text };
    for (const axis of [layout.xaxis, layout.yaxis]) {
      Object.assign(axis, { gridcolor: look.grid, linecolor: look.edge, tickcolor: look.edge });
    }
    for (const shape of layout.shapes || []) shape.line.color = look.soft;
    return copy;
  };

  const draw = (panel) => {
    const copy = painted(data.panels[panel.id]);
    const first = !drawn.has(panel);
    drawn.add(panel);
    const done = window.Plotly[first ? "newPlot" : "react"](panel, copy.data, copy.layout, config);
    done.catch((error) => { panel.textContent = `The figure cannot be drawn: ${error.message}`; });
  };

  const redraw = () => drawn.forEach(draw);

  const dress = () => {
    root.dataset.theme = theme();
    document.getElementById("theme").textContent = `Theme: ${chosen}`;
    const look = data.themes[theme()];
    for (const swatch of document.querySelectorAll("svg[data-place]")) {
      swatch.style.color = look.colours[Number(swatch.dataset.place) % look.colours.length];
    }
    redraw();
  };

  document.getElementById("theme").addEventListener("click", () => {
    const order = ["auto", "light", "dark"];
    chosen = order[(order.indexOf(chosen) + 1) % order.length];
    dress();
  });
  system.addEventListener("change", dress);

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const place = Number(button.dataset.place);
      const shows = hidden.has(place);
      if (shows) hidden.delete(place); else hidden.add(place);
      for (const same of document.querySelectorAll(`.legend button[data-place="${place}"]`)) {
        same.setAttribute("aria-pressed", String(shows));
      }
      redraw();
    });
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { near.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "600px" });
  for (const panel of document.querySelectorAll(".plot")) near.observe(panel);
  window.addEventListener("beforeprint", () => {
    for (const panel of document.querySelectorAll(".plot")) if (!drawn.has(panel)) draw(panel);
  });

  const value = (row, place) => {
    const cell = row.cells[place];
    return cell.dataset.sort === undefined ? null : Number(cell.dataset.sort);
  };

  const order = (place, sign) => (a, b) => {
    const [x, y] = [value(a, place), value(b, place)];
    if (x !== null && y !== null) return sign * (x - y);
    if (x !== null || y !== null) return x === null ? 1 : -1;
    return sign * a.cells[place].textContent.localeCompare(b.cells[place].textContent, undefined, { numeric: true });
  };

  for (const table of document.querySelectorAll("table.sorts")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows].sort(order(place, rising ? 1 : -1));
      table.tBodies[0].append(...rows);
    }));
  }

  for (const box of document.querySelectorAll(".filter input")) {
    const rows = [...document.getElementById(box.dataset.table).tBodies[0].rows];
    const count = document.getElementById(`${box.dataset.table}-count`);
    const show = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        left += row.hidden ? 0 : 1;
      }
      count.textContent = `${left} of ${rows.length}`;
    };
    box.addEventListener("input", show);
    show();
  }

  dress();
})();
