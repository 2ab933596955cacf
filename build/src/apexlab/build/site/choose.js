"use strict";
// Shows one cell of those that the page holds; without this script all of them are there to read.
(() => {
  const by = (id) => document.getElementById(id);
  const form = by("choose"), answer = by("answer"), said = by("said"), cells = by("cells");
  const articles = [...cells.querySelectorAll("article")];

  function gpuLine(article) {
    const old = article.querySelector(".chosen");
    if (old) old.classList.remove("chosen");
    const item = [...article.querySelectorAll("[data-gpu]")]
      .find((one) => one.dataset.gpu === form.gpu.value);
    if (item) item.classList.add("chosen");
    return item;
  }

  // For a pair that does not exist: what is known of the chosen GPU and the cells that are near.
  function nearOnes(line) {
    const list = document.createElement("ul");
    for (const link of line.querySelectorAll("a")) {
      const article = articles.find((one) => "#" + one.id === link.hash);
      const item = article && gpuLine(article);
      if (!item) continue;
      const entry = document.createElement("li");
      entry.append(link.textContent + ", on ", ...item.cloneNode(true).childNodes);
      list.append(entry);
    }
    if (list.children.length) said.append(list);
  }

  function show() {
    const slug = "torch" + form.torch.value + "-cuda" + form.cuda.value;
    const article = articles.find((one) => one.id === slug);
    for (const one of articles) one.hidden = one !== article;
    said.replaceChildren();
    const line = document.createElement("p");
    said.append(line);
    if (!article) {
      line.append(...by("no-" + slug).cloneNode(true).childNodes);
      nearOnes(line);
      return;
    }
    line.append(article.querySelector("h3").textContent + ": "
      + article.querySelector(".state").textContent + " ");
    const item = gpuLine(article);
    if (item) line.append(...item.cloneNode(true).childNodes);
  }

  // A link to a cell, from the table or from elsewhere, chooses it.
  function follow(focus) {
    const article = articles.find((one) => "#" + one.id === location.hash);
    if (!article) return;
    form.torch.value = article.dataset.torch;
    form.cuda.value = article.dataset.cuda;
    show();
    if (focus) article.querySelector("h3").focus();
    article.scrollIntoView();
  }

  answer.append(cells);
  answer.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => {
    show();
    history.replaceState(null, "", "#" + "torch" + form.torch.value + "-cuda" + form.cuda.value);
  });
  addEventListener("hashchange", () => follow(true));
  // By itself a browser would take the focus away again, and do nothing for the same link twice.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#torch']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.hash !== location.hash) history.pushState(null, "", link.hash);
    follow(true);
  });
  show();
  follow(false);
})();
