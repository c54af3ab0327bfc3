/** What would change if an app went from one release to another? Pure. */
import type { Release } from '@flynn/controller/model';
import { shortText } from '../text.ts';
import { changeOf } from './env-change.ts';

/** Lines for people; none where the two are the same but for their numbers. Values of variables are in none of them. */
export function differenceOf(from: Release, to: Release): string[] {
  const names = (release: Release) => Object.keys(release.processes).toSorted();
  const lost = Object.fromEntries(
    Object.keys(from.env).flatMap((name) => (Object.hasOwn(to.env, name) ? [] : [[name, null]])),
  );
  const env = changeOf(from.env, { ...to.env, ...lost });
  const fresh = names(to).filter((type) => !names(from).includes(type));
  const gone = names(from).filter((type) => !names(to).includes(type));
  const altered = names(to).filter(
    (type) => names(from).includes(type) && JSON.stringify(from.processes[type]) !== JSON.stringify(to.processes[type]),
  );
  return [
    ...codeLine(from, to),
    ...line('variables that come (back)', env.added),
    ...line('variables with another value', env.changed),
    ...line('variables that go', env.removed),
    ...line('process types that come (back)', fresh),
    ...line('process types that go', gone),
    ...line('process types that are run otherwise', altered),
  ];
}

function codeLine(from: Release, to: Release): string[] {
  if (from.artifactId === to.artifactId) return [];
  const [before, after] = [from, to].map(({ meta }) => meta['git.commit']);
  if (before === undefined || after === undefined) return ['the code: another build'];
  return [`the code: commit ${shortText(before)} → ${shortText(after)}`];
}

function line(what: string, names: readonly string[]): string[] {
  return names.length === 0 ? [] : [`${what}: ${names.join(', ')}`];
}
