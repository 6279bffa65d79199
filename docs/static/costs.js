"use strict";
// The form of "The cost of a layer": a winner of exactly this layer, or those of its kind that are next to it.
const form = document.getElementById("layer"), NAMES = ["n", "h", "w", "c", "k", "r", "s", "stride", "pad", "groups"];
const DEFAULTS = { stride: 1, pad: 0, groups: 1 };  // of the command

function outputs(one) {
  const side = (size, filter) => Math.floor((size + 2 * one.pad - filter) / one.stride) + 1;
  return one.n * side(one.h, one.r) * side(one.w, one.s);
}

function floorUs(one) {
  const pixels = outputs(one), filter = one.r * one.s * one.c / one.groups;
  const operations = 2 * pixels * one.k * filter;
  const bytes = one.n * one.h * one.w * one.c + one.k * filter + pixels * one.k;
  return Math.max(operations / COSTS.tops, bytes / COSTS.tb_per_s) / 1e6;
}

// Layers of one kind have the same filter and stride, and are dense, grouped or depthwise alike.
const kind = (one) => [one.r, one.s, one.stride, one.groups === 1 ? "dense" : one.groups === one.c ? "depthwise" : "grouped"];
// In doublings of the extents that a time depends on.
const sizes = (one) => [outputs(one), one.c, one.k].map(Math.log2);
const distance = (a, b) => sizes(a).reduce((sum, size, at) => sum + Math.abs(size - sizes(b)[at]), 0);
const us = (time) => `${time.toFixed(2)} us`;

function wrong(one) {
  const whole = NAMES.find((name) => !Number.isInteger(one[name]) || one[name] < (name === "pad" ? 0 : 1));
  if (whole !== undefined) return `${whole} must be a whole number`;
  if (one.c % one.groups || one.k % one.groups) return "channels and outputs must be multiples of the groups";
  if (outputs(one) <= 0 || one.h + 2 * one.pad < one.r || one.w + 2 * one.pad < one.s) return "the filter is larger than the image";
  return null;
}

function show() {
  const one = Object.fromEntries(NAMES.map((name) => [name, form.elements[name].valueAsNumber]));
  const answer = document.getElementById("answer"), table = document.getElementById("near");
  const command = document.getElementById("command"), refused = wrong(one);
  table.hidden = true;
  command.textContent = "";
  if (refused !== null) { answer.textContent = refused; return; }
  const flags = NAMES.filter((name) => one[name] !== DEFAULTS[name]);
  command.textContent = `qconv-tune lookup conv2d ${flags.map((name) => `--${name} ${one[name]}`).join(" ")} --target h200`;
  const floor = floorUs(one), exact = COSTS.rows.filter((row) => NAMES.every((name) => row[name] === one[name]));
  const near = exact.length ? exact : COSTS.rows.filter((row) => `${kind(row)}` === `${kind(one)}`)
    .sort((a, b) => distance(a, one) - distance(b, one)).slice(0, 3);
  const times = near.map((row) => floor * row.us / row.floor).sort((a, b) => a - b);
  answer.textContent = exact.length ? `Measured: ${exact.map((row) => us(row.us)).join(", ")}. Floor: ${us(floor)}.`
    : near.length ? `About ${us(times[0])} to ${us(times.at(-1))}, if it comes as near its floor of ${us(floor)} as the winners next to it.`
    : `No winner of this kind is shipped. Floor: ${us(floor)}.`;
  table.hidden = !near.length;
  table.tBodies[0].replaceChildren(...near.map((row) => {
    const line = document.createElement("tr");
    line.append(...[row.label, row.us.toFixed(2), `${Math.round(100 * row.floor / row.us)} %`, row.family].map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    return line;
  }));
}

form.addEventListener("input", show);
form.addEventListener("submit", (event) => event.preventDefault());
show();
