// Opens the status page in headless Chromium and prints how wide it is at some widths, as one JSON object.
//   node browser.mjs PLAYWRIGHT CHROMIUM URL PROFILE SCREENSHOT_PREFIX
const [, , playwright, executablePath, url, profile, shots] = process.argv;
const { chromium } = await import(playwright);
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const found = { errors: [], looks: [] };
const context = await chromium.launchPersistentContext(profile, { executablePath, args, headless: true });
for (const width of [1280, 400, 320]) for (const theme of ["light", "dark"]) {
  const page = await context.newPage();
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme: theme });
  page.on("console", message => found.errors.push(message.text()));
  page.on("pageerror", error => found.errors.push(error.message));
  await page.goto(url);
  await page.waitForSelector("body[data-shown]");
  found.looks.push(await page.evaluate(width => {
    const cells = [...document.querySelectorAll("#nodes td")].filter(cell => cell.getClientRects().length);
    return {
      width, wide: document.documentElement.scrollWidth,
      beyond: cells.filter(cell => cell.getBoundingClientRect().right > innerWidth).length,
      heads: cells.map(cell => getComputedStyle(cell, "::before").content), cells: cells.map(cell => cell.textContent),
    };
  }, width));
  await page.screenshot({ path: `${shots}-${width}-${theme}.png`, fullPage: true });
  await page.close();
}
await context.close();
console.log(JSON.stringify(found));
