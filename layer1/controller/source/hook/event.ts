/** What does a git service tell of, and is it to the branch that is followed? Pure. */
import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import type { Hook } from './model.ts';

/** A branch or a tag that was pushed: `refs/heads/main`. */
type Ref = Readonly<{ name: string; isGone: boolean }>;
/** Without `refs` a push of which it could not be read what it was to. */
export type Told = Readonly<{ is: 'ping' } | { is: 'push'; refs?: readonly Ref[] } | { is: 'other'; event: string }>;
export type Verdict = Pick<NonNullable<Hook['last']>, 'outcome' | 'what'>;

/** Gitea and Forgejo say the same under several of these. */
const eventHeaders = [
  'x-github-event',
  'x-gitea-event',
  'x-forgejo-event',
  'x-gogs-event',
  'x-gitlab-event',
  // Bitbucket's.
  'x-event-key',
] as const;
const pings: ReadonlySet<string> = new Set(['ping', 'diagnostics:ping']);
const pushes: ReadonlySet<string> = new Set(['push', 'Push Hook', 'repo:push', 'repo:refs_changed']);

/** Of GitHub, GitLab, Gitea and Forgejo. */
const oneRef = z.object({ ref: z.string(), after: z.string().optional(), deleted: z.boolean().optional() });
/** Of Bitbucket Cloud. */
const changedNames = z.object({
  push: z.object({ changes: z.array(z.object({ new: namedRef().nullish(), old: namedRef().nullish() })) }),
});
/** Of Bitbucket Data Center. */
const changedRefs = z.object({ changes: z.array(z.object({ ref: z.object({ id: z.string() }), type: z.string() })) });

function namedRef() {
  return z.object({ type: z.string(), name: z.string() });
}

/** `text` is the body, undefined where it was too long to be kept. A sender that names no event is taken to tell of a push. */
export function toldBy(headers: IncomingHttpHeaders, text: string | undefined): Told {
  const event = eventHeaders.map((name) => headers[name]).find((value) => typeof value === 'string');
  if (typeof event === 'string' && pings.has(event)) return { is: 'ping' };
  if (typeof event === 'string' && !pushes.has(event)) return { is: 'other', event };
  const refs = text === undefined ? undefined : refsOf(payloadOf(headers, text));
  return refs === undefined ? { is: 'push' } : { is: 'push', refs };
}

/** A look costs little and a commit that is not seen much: in doubt it is looked. */
export function judge(told: Told, branch: string): Verdict {
  if (told.is === 'ping') return { outcome: 'ping', what: `a ping; pushes to ${branch} are looked for at once` };
  if (told.is === 'other') return ignored(`${shown(told.event)} is no push`);
  if (told.refs === undefined) return { outcome: 'looks', what: 'a push' };
  const own = told.refs.filter(({ name }) => name === `refs/heads/${branch}`);
  if (own.some(({ isGone }) => !isGone)) return { outcome: 'looks', what: `a push to ${branch}` };
  if (own.length > 0) return ignored(`${branch} was removed there`);
  const others = told.refs.map(({ name }) => name.replace(/^refs\/(?:heads|tags)\//, '')).join(', ');
  return ignored(`a push to ${shown(others) || 'nothing'}, and ${branch} is what is followed`);
}

function ignored(what: string): Verdict {
  return { outcome: 'ignored', what };
}

/** GitHub puts the same into a form, unless it is told otherwise. */
function payloadOf(headers: IncomingHttpHeaders, text: string): unknown {
  const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded') === true;
  try {
    return JSON.parse(isForm ? (new URLSearchParams(text).get('payload') ?? '') : text);
  } catch {
    return undefined;
  }
}

function refsOf(payload: unknown): Ref[] | undefined {
  const one = oneRef.safeParse(payload).data;
  if (one !== undefined) {
    const { ref, after = '', deleted = false } = one;
    return [{ name: ref, isGone: deleted || /^0+$/.test(after) }];
  }
  const names = changedNames.safeParse(payload).data?.push.changes;
  if (names !== undefined) {
    return names.flatMap(({ new: now, old }) => {
      const ref = now ?? old;
      if (ref === null || ref === undefined) return [];
      return [{ name: `refs/${ref.type === 'branch' ? 'heads' : 'tags'}/${ref.name}`, isGone: now !== ref }];
    });
  }
  const refs = changedRefs.safeParse(payload).data?.changes;
  return refs?.map(({ ref, type }) => ({ name: ref.id, isGone: type === 'DELETE' }));
}

/** It is kept, and shown to people: a line of it. */
function shown(text: string): string {
  const line = text.replaceAll(/\p{C}/gu, '?');
  return line.length > 100 ? `${line.slice(0, 100)}…` : line;
}
