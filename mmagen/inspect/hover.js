"use strict";
// Says at once what the cell below the pointer is, or the one that the arrow keys have reached, and outlines it. Without this
// script a browser shows the titles of cells by itself, a second later and not for the keyboard.
(() => {
  const says = document.getElementById("says");
  const outline = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  outline.setAttribute("class", "at");
  let shown; // the cell

  // Cells of a picture are elements with a title; of one with too many for that, places of a grid (draw/grid.py).
  const pictures = new Map();
  function picture(svg) {
    if (!pictures.has(svg)) {
      const grid = svg.closest("figure").dataset.grid;
      const titled = titles(svg); // taken away of a grid, too: a browser would show them besides
      pictures.set(svg, grid ? gridded(svg, JSON.parse(grid)) : titled);
    }
    return pictures.get(svg);
  }

  function titles(svg) {
    const cells = new Map();
    for (const title of svg.querySelectorAll("g > title, path > title")) {
      const element = title.parentNode;
      const shape = element.querySelector("rect") || element;
      cells.set(element, { text: title.textContent, box: () => within(svg, shape.getBoundingClientRect()) });
      title.remove();
    }
    return {
      at: (target) => cells.get(target.closest("g, path")) || cells.get(target.parentNode),
      first: () => cells.values().next().value,
      beside: (from, key) => nearest([...cells.values()], from, key),
    };
  }

  function gridded(svg, grid) {
    const owners = new Map();
    grid.first.forEach((first, thread) => {
      grid.offsets[grid.kind[thread]].forEach((offset, value) => {
        const element = first + offset;
        if (!owners.has(element)) owners.set(element, []);
        owners.get(element).push(`thread ${thread} value ${value}`);
      });
    });
    const cells = new Map();
    function cell(i, j) {
      const [row, column] = [grid.rows[0] + i, grid.columns[0] + j];
      if (i < 0 || j < 0 || row >= grid.rows[1] || column >= grid.columns[1]) return undefined;
      const element = row * grid.of + column;
      if (!cells.has(element)) {
        cells.set(element, {
          i, j, text: `${grid.matrix}(${row},${column}): ${owners.get(element).join(", ")}${place(grid.stored, row, column)}`,
          box: () => [grid.margin + j * grid.cell, grid.margin + i * grid.cell, grid.cell, grid.cell],
        });
      }
      return cells.get(element);
    }
    return {
      at: (_, x, y) => cell(Math.floor((y - grid.margin) / grid.cell), Math.floor((x - grid.margin) / grid.cell)),
      first: () => cell(0, 0),
      beside: (from, key) => cell(from.i + step(key)[1], from.j + step(key)[0]),
    };
  }

  // As draw/grid.py says it: the sum of a row's and a column's part, and swizzled.
  function place(stored, row, column) {
    if (!stored) return "";
    const group = Math.floor(column / stored.group);
    const plain = stored.rows[row] + stored.columns[group * stored.kept];
    const mask = ((1 << stored.bits) - 1) << (stored.base + stored.shift);
    const byte = (plain ^ ((plain & mask) >> stored.shift)) * stored.bytes;
    const bank = (at) => Math.floor(at / 4) % 32;
    const without = plain * stored.bytes;
    const swizzled = stored.bits ? `; without the swizzle byte ${without}, bank ${bank(without)}` : "";
    return `; ${part(stored, group, column)}byte ${byte} of its stage, bank ${bank(byte)}${swizzled}`;
  }

  // The sentences of draw/stored.py.
  function part(stored, group, column) {
    if (stored.kept * stored.packed < stored.group) {
      const first = group * stored.group;
      return `what is stored of columns ${first} to ${first + stored.group - 1} begins at `;
    }
    if (stored.packed === 1) return "";
    const bits = (8 * stored.bytes) / stored.packed;
    const low = (column % stored.packed) * bits;
    return `bits ${low} to ${low + bits - 1} of `;
  }

  const step = (key) => ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] })[key];

  // The next cell in a direction: what lies in line comes first.
  function nearest(cells, from, key) {
    const middle = ([x, y, wide, high]) => [x + wide / 2, y + high / 2];
    const [dx, dy] = step(key);
    const [fromX, fromY] = middle(from.box());
    let [best, least] = [undefined, Infinity];
    for (const cell of cells) {
      const [x, y] = middle(cell.box());
      const along = (x - fromX) * dx + (y - fromY) * dy;
      const across = Math.abs((x - fromX) * dy) + Math.abs((y - fromY) * dx);
      if (along > 0.5 && along + 4 * across < least) [best, least] = [cell, along + 4 * across];
    }
    return best;
  }

  // A box on the screen in pixels of a picture.
  function within(svg, box) {
    const frame = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / frame.width;
    return [(box.left - frame.left) * scale, (box.top - frame.top) * scale, box.width * scale, box.height * scale];
  }

  function show(svg, cell) {
    if (cell === shown) return;
    if (!cell) {
      hide();
      return;
    }
    shown = cell;
    const [x, y, width, height] = cell.box();
    for (const [name, value] of Object.entries({ x, y, width, height })) outline.setAttribute(name, value);
    svg.append(outline);
    says.textContent = cell.text;
    says.hidden = false;
    put();
  }

  // Below the cell, above it where there is no room, and never beyond the right edge.
  function put() {
    const frame = outline.getBoundingClientRect();
    const right = document.documentElement.clientWidth - says.offsetWidth - 8;
    const below = frame.bottom + 8;
    says.style.left = `${Math.max(0, Math.min(frame.left, right))}px`;
    says.style.top = `${below + says.offsetHeight > innerHeight ? frame.top - 8 - says.offsetHeight : below}px`;
  }

  function hide() {
    shown = undefined;
    outline.remove();
    says.hidden = true;
    says.textContent = "";
  }

  // Pictures that scroll below a pointer that rests are no movement of it: the keyboard may be at work.
  let rests = "";
  const spot = (event) => `${event.screenX} ${event.screenY}`;
  const moved = (event) => event.type === "pointerdown" || spot(event) !== rests;

  function point(event) {
    if (!moved(event)) return;
    const svg = event.currentTarget;
    const frame = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / frame.width;
    show(svg, picture(svg).at(event.target, (event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale));
  }

  function press(event) {
    const svg = event.currentTarget;
    if (event.key === "Escape") hide();
    if (!step(event.key)) return;
    event.preventDefault();
    const cells = picture(svg);
    show(svg, outline.parentNode === svg ? cells.beside(shown, event.key) || shown : cells.first());
    outline.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  for (const svg of document.querySelectorAll("figure svg")) {
    svg.tabIndex = 0;
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", (event) => moved(event) && hide());
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", press);
  }
  addEventListener("pointermove", (event) => { rests = spot(event); });
  addEventListener("scroll", () => shown && put(), { capture: true, passive: true });
})();
