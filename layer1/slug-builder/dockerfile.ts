/** What has to be known of a Dockerfile before the engine reads it: which images and arguments it asks for. */
import { FlynnError } from '@flynn/kit/errors';

/** Images of the platform's, by names that mean the same on every cluster; the engine's are longer. */
const ownImage = /^flynn\/[a-z0-9-]+(?::[A-Za-z0-9_.-]+)?$/;

const from = /^(\s*FROM\s+(?:--\S+\s+)*)(\S+)/gim;
const copyFrom = /(--from=)(\S+)/g;

/** Those it names that are the platform's, each once: `flynn/slug-runner`, `flynn/image:<digest>`. */
export function ownImagesOf(dockerfile: string): string[] {
  const named = [...dockerfile.matchAll(from), ...dockerfile.matchAll(copyFrom)].map(([, , name = '']) => name);
  return [...new Set(named.filter((name) => ownImage.test(name)))];
}

/** The same with other names for these. */
export function withImages(dockerfile: string, names: ReadonlyMap<string, string>): string {
  const replaced = (whole: string, before: string, name: string): string => {
    const other = names.get(name);
    return other === undefined ? whole : before + other;
  };
  return dockerfile.replace(from, replaced).replace(copyFrom, replaced);
}

/** Of the app's variables those that the Dockerfile declares with ARG: they become part of the image's history. */
export function argsOf(dockerfile: string, env: Readonly<Record<string, string>>): Record<string, string> {
  const lines = [...dockerfile.matchAll(/^\s*ARG\s+([^\r\n]+)/gim)].map(([, text = '']) => text);
  const words = lines.flatMap((line) => line.match(/(?<=^|\s)[A-Za-z_]\w*/g) ?? []);
  const declared = new Set(words);
  return Object.fromEntries(Object.entries(env).filter(([name]) => declared.has(name)));
}

/** BuildKit's own words, which the engine's builder would complain about one at a time. */
export function assertPlain(dockerfile: string): void {
  const found =
    /^\s*(?:RUN\s+--(?:mount|network|security)\b|(?:COPY|ADD)\s+--(?:link|parents|exclude)\b|(?:RUN|COPY|ADD)\s[^\n]*<<-?["']?\w)/im.exec(
      dockerfile,
    )?.[0];
  if (found === undefined) return;
  throw new FlynnError(
    'invalid',
    `The Dockerfile uses "${found.trim()}", which only BuildKit knows. Builds here take no --mount, --link and here-documents: write it without.`,
  );
}
