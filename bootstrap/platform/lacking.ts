/** What does the platform go without, and why? In the word on its services, for people. */
import { dashboardApp } from './manifest.ts';
import type { Outcome } from './platform.ts';

/** `page`: what is said of the web page's names. Where it failed it may have got none: that somebody has them is no reason. */
export async function lackingText(
  outcomes: ReadonlyMap<string, Outcome>,
  page: string,
  isThere: (app: string) => Promise<boolean>,
): Promise<string> {
  const failed = [...outcomes].filter(([, outcome]) => outcome === 'failed').map(([name]) => name);
  const texts = await Promise.all(failed.map(async (name) => failedText(name, await isThere(name))));
  return `${texts.join('')}${failed.includes(dashboardApp) ? '' : page}`;
}

function failedText(name: string, isThere: boolean): string {
  const [what, where] = isThere
    ? ['deployed', `"flynn -a ${name} log" and "flynn eval list" tell why`]
    : ['created', 'what is told of it above says why'];
  return `; ${name} could not be ${what}: ${where}, and the next up tries again`;
}
