// Lead from Locust's own UI to our page: its tab of ours, and a link that is there before there are tabs.
{
  const { page, title, arrivals } = document.currentScript.dataset;

  // Locust draws our tab; what it would show below is an empty table.
  document.addEventListener(
    "click",
    (event) => {
      const tab = event.target instanceof Element ? event.target.closest("[role=tab]") : null;
      if (tab?.textContent.trim() !== title) return;
      event.preventDefault();
      event.stopPropagation();
      location.assign(page);
    },
    true,
  );

  const link = document.createElement("a");
  link.href = page;
  link.id = "r1perf-link";
  link.textContent = `${title} →`;
  Object.assign(link.style, {
    position: "fixed", right: "16px", bottom: "16px", zIndex: 1000, padding: "8px 14px", borderRadius: "18px",
    background: "#0b6bcb", color: "#fff", font: "600 14px system-ui, sans-serif", textDecoration: "none",
    boxShadow: "0 1px 4px rgb(0 0 0 / 40%)",
  });
  document.body.append(link);

  // In an open loop users and spawn rate say nothing, and Locust shows them as disabled fields: the rate stands in their place.
  const style = document.createElement("style");
  style.textContent = ["user_count", "userCount", "spawn_rate", "spawnRate"]
    .map((name) => `.MuiFormControl-root:has(> * > input[name="${name}"]:disabled)`)
    .join(", ") + " { display: none; }";
  document.head.append(style);
  void arrivals;
}
