/** Which buildpack is an app of JavaScript for, where nobody names one? The lockfile says who installs its packages. Pure. */
import { bunLockfiles, lockfilesOfNode } from './nodejs/lockfiles.ts';

export type JavaScriptChoice = {
  name: 'nodejs' | 'bun';
  /** What was passed over. */
  note?: string;
};

/** Of an app with package.json. `names` are those at its top. */
export function chooseJavaScript(names: readonly string[], packageManager: string | undefined): JavaScriptChoice {
  if (packageManager?.startsWith('bun@') === true) return { name: 'bun' };
  const lockfile = bunLockfiles.find((name) => names.includes(name));
  if (lockfile === undefined) return { name: 'nodejs' };
  const [other] = lockfilesOfNode(names);
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
