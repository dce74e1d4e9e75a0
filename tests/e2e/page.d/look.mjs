// usage: look.mjs CHROMIUM AXE.JS URL OUT.png light|dark WIDTH
//
// Opens a page in headless Chromium, takes a picture of all of it, and lets axe-core judge it.
// Prints what is wrong and exits with 1, also for messages of the browser (a policy that was
// broken) and a page that is wider than its window. Speaks the browser's own protocol over a
// pipe, so nothing else is needed. The browser's profile stays in the working folder.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';

const [chromium, axe, url, out, scheme, width] = process.argv.slice(2);
const profile = mkdtempSync('profile-');
const browser = spawn(
  chromium,
  ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
    '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank'],
  { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] },
);
const [send, receive] = [browser.stdio[3], browser.stdio[4]];
const waiting = new Map();
const events = [];
let next = 1;
let rest = Buffer.alloc(0);
receive.on('data', (data) => {
  rest = Buffer.concat([rest, data]);
  for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
    const message = JSON.parse(rest.subarray(0, end));
    rest = rest.subarray(end + 1);
    if (!message.id) {
      events.push(message);
      loaded(message);
      continue;
    }
    const { resolve, reject } = waiting.get(message.id);
    message.error ? reject(new Error(message.error.message)) : resolve(message.result);
  }
});
let loaded = () => {};
const call = (method, params = {}, sessionId = undefined) =>
  new Promise((resolve, reject) => {
    waiting.set(next, { resolve, reject });
    send.write(`${JSON.stringify({ id: next++, method, params, sessionId })}\0`);
  });

const wrong = [];
try {
  const { targetId } = await call('Target.createTarget', { url: 'about:blank' });
  const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true });
  const tell = (method, params) => call(method, params, sessionId);
  const evaluate = async (expression) => {
    const { result, exceptionDetails } = await tell('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  await tell('Page.enable');
  await tell('Log.enable');
  await tell('Runtime.enable');
  await tell('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  await tell('Emulation.setDeviceMetricsOverride', { width: Number(width), height: 900, deviceScaleFactor: 1, mobile: false });
  const there = new Promise((resolve) => {
    loaded = (message) => message.method === 'Page.loadEventFired' && resolve();
  });
  const { errorText } = await tell('Page.navigate', { url });
  if (errorText) throw new Error(`${url}: ${errorText}`);
  await there;
  for (const { method, params } of events) {
    // a browser asks for an icon by itself, and there is none
    if (method === 'Log.entryAdded' && !params.entry.url?.endsWith('/favicon.ico')) wrong.push(`the browser says: ${params.entry.text}`);
  }
  const size = await evaluate('({ inner: document.documentElement.clientWidth, wide: document.documentElement.scrollWidth, back: getComputedStyle(document.body).backgroundColor })');
  if (size.wide > size.inner) wrong.push(`the page is ${size.wide} wide in a window of ${size.inner}`);
  const dark = size.back.match(/\d+/g).slice(0, 3).every((n) => Number(n) < 64);
  if (dark !== (scheme === 'dark')) wrong.push(`the background is ${size.back} where ${scheme} is preferred`);
  const { data } = await tell('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true });
  writeFileSync(out, Buffer.from(data, 'base64'));
  await evaluate(readFileSync(axe, 'utf8') + ';true');
  const judged = await evaluate(`axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
    .then((found) => ({ passed: found.passes.length, wrong: found.violations.map((v) => v.id + ': ' + v.help + ' ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + ' ' + n.failureSummary).join(' | ')) }))`);
  wrong.push(...judged.wrong);
  if (judged.passed < 15) wrong.push(`only ${judged.passed} rules applied`);
  console.log(`${url} ${scheme} ${width}: ${judged.passed} rules passed, ${wrong.length} things wrong`);
} catch (error) {
  wrong.push(String(error));
} finally {
  const ended = new Promise((resolve) => browser.once('exit', resolve));
  browser.kill('SIGKILL');
  await ended;
}
for (const what of wrong) console.log(what);
process.exit(wrong.length ? 1 : 0);
