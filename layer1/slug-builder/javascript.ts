/** Which buildpack is an app of JavaScript for, where nobody names one? The lockfile says who installs its packages. Pure. */
import { bunLockfiles, lockfilesOfNode } from './nodejs/lockfiles.ts';

export type JavaScriptChoice = {
  name: 'nodejs' | 'bun' | 'deno';
  /** What was passed over. */
  note?: string;
};

/** At the top of a site of plain files. */
export const siteSigns = ['static.json', 'Staticfile', 'index.html'] as const;

/** `names` are those at the app's top. Undefined where it is none of JavaScript. */
export function chooseJavaScript(
  names: readonly string[],
  packageManager: string | undefined,
): JavaScriptChoice | undefined {
  const ofDeno = ['deno.json', 'deno.jsonc', 'deno.lock'].find((name) => names.includes(name));
  // Tools of Deno are of use to sites of plain files, too.
  const isSite = siteSigns.some((name) => names.includes(name)) && !names.includes('deno.lock');
  if (!names.includes('package.json')) return ofDeno === undefined || isSite ? undefined : { name: 'deno' };
  const lockfile = bunLockfiles.find((name) => names.includes(name));
  const [other] = lockfilesOfNode(names);
  if (packageManager?.startsWith('bun@') === true) {
    if (lockfile !== undefined || other === undefined) return { name: 'bun' };
    const note = `packageManager says ${packageManager}, and the only lockfile is ${other}: Node.js builds this app by that. To build it with Bun instead, run "bun install", commit bun.lock, and git rm ${other}.`;
    return { name: 'nodejs', note };
  }
  if (lockfile === undefined) {
    if (other !== undefined || ofDeno === undefined) return { name: 'nodejs' };
    if (names.includes('deno.lock')) return { name: 'deno' };
    const note = `There is ${ofDeno}, and no deno.lock: Node.js builds this app by its package.json. To build it with Deno instead, run "deno install" and commit deno.lock.`;
    return { name: 'nodejs', note };
  }
  if (other !== undefined)
    return { name: 'nodejs', note: `There are ${other} and ${lockfile}: ${passedOver(`git rm ${other}`)}` };
  const declared = /^(?:npm|yarn|pnpm)@/.test(packageManager ?? '');
  if (declared) {
    return {
      name: 'nodejs',
      note: `There is ${lockfile}, and packageManager says ${packageManager}: ${passedOver('remove that')}`,
    };
  }
  return { name: 'bun' };
}

function passedOver(what: string): string {
  return `Node.js builds this app, and Bun's lockfile is not read. To build it with Bun instead, ${what}.`;
}
