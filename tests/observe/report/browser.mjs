// Opens a page of `report` in headless Chromium and prints what it finds as one JSON object.
//   node browser.mjs PLAYWRIGHT CHROMIUM PAGE.html PROFILE [SCREENSHOT_PREFIX]
const [, , playwright, executablePath, file, profile, shots] = process.argv;
const { chromium } = await import(playwright);
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const found = { errors: [], requests: [], looks: [], keys: {} };

// The least contrast of a text with what is behind it, as WCAG 2 reckons it; large text counts as any other.
const contrast = () => {
  const rgb = text => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = node => { for (; node; node = node.parentElement) { const c = rgb(getComputedStyle(node).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  let least = [99, ""];
  for (const node of document.querySelectorAll("body *:not(script)")) {
    if (![...node.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !node.getClientRects().length) continue;
    const style = getComputedStyle(node), ink = rgb(node.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(node))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least[0]) least = [ratio, node.outerHTML.slice(0, 120)];
  }
  return least;
};

const context = await chromium.launchPersistentContext(profile, { executablePath, args, headless: true });
for (const [width, height] of [[1280, 900], [390, 844]]) for (const theme of ["light", "dark"]) {
  const page = await context.newPage();
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: theme });
  page.on("console", message => found.errors.push(message.text()));
  page.on("pageerror", error => found.errors.push(error.message));
  page.on("request", request => found.requests.push(request.url()));
  await page.goto("file://" + file);
  await page.waitForSelector("#timeline[data-drawn]");
  found.looks.push({
    width, theme,
    wide: await page.evaluate(() => document.documentElement.scrollWidth),
    ground: await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
    contrast: await page.evaluate(contrast),
    milliseconds: await page.evaluate(() => Number(document.getElementById("timeline").dataset.drawn)),
  });
  if (shots) await page.screenshot({ path: `${shots}-${width}-${theme}.png`, fullPage: true });
  await page.close();
}

const page = await context.newPage();
await page.goto("file://" + file);
await page.waitForSelector("#timeline[data-drawn]");
const said = () => page.textContent("#said"), tip = () => page.evaluate(() => { const t = document.getElementById("tip"); return t.hidden ? null : t.textContent; });
const focused = () => page.evaluate(() => ({ role: document.activeElement.getAttribute("role"), label: document.activeElement.getAttribute("aria-label"), what: document.activeElement.getAttribute("class") }));
const keys = found.keys;
keys.whole = await said();
keys.stops = [];
for (let i = 0; i < 200; i++) {
  await page.keyboard.press("Tab");
  const at = await focused();
  if (at.role !== "img" && keys.stops.length) break;
  if (at.role === "img") keys.stops.push({ ...at, tip: await tip() });
}
await page.focus("#timeline g.lane");
for (const key of ["+", "+", "ArrowRight", "-", "Escape"]) { await page.keyboard.press(key); keys[key] = await said(); }
keys.after_escape = await tip();
await page.keyboard.press("ArrowDown");
keys.below = await focused();
await page.click("[data-axis=rank]");
keys.rank = await said();
keys.pressed = await page.getAttribute("[data-axis=rank]", "aria-pressed");
const lane = await page.locator("#timeline g.lane rect.ground").first().boundingBox();
keys.hover = [];
for (let x = lane.x + 4; x < lane.x + lane.width; x += 12) {
  await page.mouse.move(x, lane.y + lane.height / 2);
  keys.hover.push(await tip());
}
if (await page.locator("[data-go]").count()) {
  await page.evaluate(() => document.querySelectorAll("details").forEach(details => { details.open = true; }));
  await page.click("[data-go]");
  keys.go = { ...(await focused()), tip: await tip() };
}
await page.emulateMedia({ media: "print", colorScheme: "dark" });
found.print = await page.evaluate(() => ({
  controls: getComputedStyle(document.querySelector(".controls")).display,
  ground: getComputedStyle(document.body).backgroundColor,
}));
found.pdf = (await page.pdf({ format: "A4" })).length;
await context.close();
console.log(JSON.stringify(found));
