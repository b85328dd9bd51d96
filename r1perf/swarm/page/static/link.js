// Lead from Locust's own UI to our page, and fit its form to r1perf. It runs before Locust's own script does.
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

  // Where there are no tabs yet, a link leads there.
  const link = document.createElement("a");
  link.href = page;
  link.id = "r1perf-link";
  link.textContent = `${title} →`;
  document.body.append(link);

  // In an open loop users and spawn rate say nothing, and Locust shows them as disabled fields: the rate stands in their place.
  const style = document.createElement("style");
  style.textContent = `
    #r1perf-link { position: absolute; left: 230px; top: 14px; z-index: 1200; padding: 8px 14px; border-radius: 18px;
      background: rgb(0 0 0 / 25%); color: #fff; font: 600 14px system-ui, sans-serif; text-decoration: none; }
    #r1perf-link:hover { background: rgb(0 0 0 / 40%); }
    body:has([role=tablist]) #r1perf-link { display: none; }
    @media (max-width: 700px) { #r1perf-link { position: fixed; left: 16px; top: auto; bottom: 12px; background: #0b6bcb; } }
    .MuiFormControl-root:has(> * > input[name="userCount"]:disabled),
    .MuiFormControl-root:has(> * > input[name="spawnRate"]:disabled) { display: none; }
  `;
  document.head.append(style);

  // Say what the scenario's own rate is, beside the field that sets another. The target's URL may come from the scenario too.
  const args = window.templateArgs ?? {};
  const rate = args.extra_options?.r1_rate;
  if (rate && arrivals) rate.help_text = `arrivals, as 2/s; the scenario's own: ${arrivals}`;
  args.missing_host_warning = false;

  // Our options are what a run is chosen by: they are not to be looked for, and "R 1Rate" is what Locust makes of r1_rate.
  let opened = false;
  new MutationObserver(() => {
    for (const named of document.querySelectorAll("form label, form legend span")) {
      const text = named.firstChild;
      if (text?.nodeType === Node.TEXT_NODE && text.nodeValue.startsWith("R 1")) text.nodeValue = text.nodeValue.slice(3);
      if (text?.nodeType === Node.TEXT_NODE && text.nodeValue.trim() === "Host") text.nodeValue = "Target's URL (the scenario's own where empty)";
    }
    const head = opened ? null : document.querySelector("form .MuiAccordion-root:has([name^=r1]) .MuiAccordionSummary-root[aria-expanded=false]");
    if (!head) return;
    opened = true;
    head.click();
  }).observe(document.body, { childList: true, subtree: true });
}
