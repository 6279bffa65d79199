"use strict";
// A button that copies each block of code.
for (const block of document.querySelectorAll("div.highlight")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    const said = block.querySelector("pre").innerText;
    try {
      await navigator.clipboard.writeText(said);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(block.querySelector("pre"));
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  block.append(button);
}
