/**
 * How are files of addresses had that ADD names? The engine would ask for them from the host's own network, where it reaches
 * what no app may. A step does it, which reaches what any step does. Shell is that of `flynn/slug-runner`. Pure.
 */
import { posix } from 'node:path';
import { octal } from './heredocs.ts';

export type Fetching = {
  /** Of the build: an address is asked each time, and what is the same is found done from there on. */
  build: string;
  /** By which this machine reaches the outside: an operator's, never the app's. */
  proxies: Readonly<Record<string, string>>;
};

export function isAddress(path: string): boolean {
  return /^https?:\/\//i.test(path);
}

const proxy = /^(?:https?|all|no)_proxy$/i;

export function proxiesOf(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => proxy.test(name)));
}

/** As the engine names such a file; undefined where the address says no name, or one that cannot be prepared. */
export function nameInAddress(address: string): string | undefined {
  const path = URL.canParse(address) ? new URL(address).pathname : '/';
  const name = path.endsWith('/') ? '' : decoded(posix.basename(path));
  // eslint-disable-next-line no-control-regex
  return name === '' || /^\.{1,2}$|[\0-\u001f/\\$"'`*?[]/.test(name) ? undefined : name;
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** As the engine would have it: with 600, and the time that the server says, or the beginning of 1970. */
export function fetching(
  address: string,
  place: string,
  { build, proxies, isSecret }: Fetching & { isSecret: boolean },
): string {
  const word = (text: string): string => `"$(printf %b '${octal(text)}')"`;
  const env = Object.entries(proxies).map(([name, value]) => `${name}=${word(value)} `);
  const asked = address.replace(/[^!-~]+/gu, (part) => encodeURIComponent(part.toWellFormed()));
  // What it says of a failure may have in it what nobody is to read.
  const curl = `curl -${isSecret ? '' : 'S'}sfL --globoff --proto '=http,https' --max-redirs 10 --connect-timeout 30 -w '%header{last-modified}'`;
  return [
    `RUN : '${octal(build)}' && mkdir -p '${posix.dirname(place)}'`,
    `at="$(${env.join('')}${curl} -o '${place}' --url ${word(asked)})"`,
    `chmod 600 '${place}'`,
    `{ [ -n "$at" ] && touch -d "$at" '${place}' 2>/dev/null || touch -d @0 '${place}'; }`,
  ].join(' && ');
}
