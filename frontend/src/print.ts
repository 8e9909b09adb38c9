// On paper: every part, or one instance alone, in light colours and as wide as a sheet.

import { setPrinting } from "./marks";

const page = document.documentElement.classList;

// Figures are drawn for a width, and what is hidden on the screen has none. So the page takes on the layout of the
// sheet first; `build` makes the parts that were never opened.
export function onPrint(build: () => void): void {
  window.addEventListener("beforeprint", () => {
    if (!page.contains("print-instance")) build();
    page.add("printing");
    setPrinting(true);
  });
  window.addEventListener("afterprint", () => {
    page.remove("printing", "print-instance");
    setPrinting(false);
  });
}

export function printInstance(): void {
  page.add("print-instance");
  window.print();
}
