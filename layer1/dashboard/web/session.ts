/** Who is at the page, as far as it knows. */
import type { platform } from '@flynn/controller/platform/api';
import type { self } from '@flynn/controller/access/api';
import type { Identity } from '@flynn/controller/access/model';
import type { ResponseOf } from '@flynn/kit/routes';
import type { Api } from './api/client.ts';
import { asFailure, Failure } from './api/failure.ts';

export type ClusterInfo = ResponseOf<typeof platform.cluster>;

export type Session =
  | Readonly<{ is: 'checking' }>
  /** `why`: what is told beside the form, when there was a session before. `former`: that one, where nobody has ended it. */
  | Readonly<{ is: 'out'; why?: string; former?: In }>
  | Readonly<{ is: 'unreachable'; why: string; former?: In }>
  | In;

type In = Readonly<{ is: 'in'; identity: Identity; cluster: ClusterInfo }>;

/** Whose pages are there still: what they have typed is not lost with their login. */
export function formerOf(session: Session): In | undefined {
  if (session.is === 'in') return session;
  return session.is === 'checking' ? undefined : session.former;
}

/** Something that was asked needed a login, and there is none any more. */
export function sessionOver(known: Session): Session {
  if (known.is !== 'in') return known;
  return {
    is: 'out',
    why: 'The session is over: log in again, and you are back here, with all that you have typed.',
    former: known,
  };
}

/** Who logs out leaves nothing, in no tab: what is told as over by another one had somebody who ended it. */
export const loggedOutElsewhere: Session = { is: 'out', why: 'You have logged out in another tab.' };

/** As it was read, or why it could not be. */
export function sessionRead(known: Session, read: Session | Failure): Session {
  if (!(read instanceof Failure)) return read.is === 'out' ? { ...read, ...kept(known) } : read;
  if (read.code === 'unauthenticated') return { is: 'out', why: read.message, ...kept(known) };
  return { is: 'unreachable', why: read.message, ...kept(known) };
}

function kept(known: Session): { former?: In } {
  const former = formerOf(known);
  return former === undefined ? {} : { former };
}

/** Throws Failure. */
export async function readSession(api: Api): Promise<Session> {
  if (!(await api.hasSession())) return { is: 'out' };
  const [identity, cluster] = await Promise.all([
    api.call<typeof self.get>('GET /whoami', {}),
    api.call<typeof platform.cluster>('GET /cluster', {}),
  ]);
  return { is: 'in', identity, cluster };
}

/**
 * Logs out. A login that this browser has no longer is over for it, even where its token could not be taken back: `why` says so
 * then. Throws Failure where the browser has it still, or nobody was there to say.
 */
export async function endSession(api: Api): Promise<Session> {
  try {
    await api.logOut();
    return { is: 'out', why: 'You are logged out.' };
  } catch (error) {
    const failure = asFailure(error);
    const isOver = await api.hasSession().then(
      (hasSession) => !hasSession,
      () => false,
    );
    if (!isOver) throw failure;
    return { is: 'out', why: failure.message };
  }
}

/** The token of `/login#TOKEN`, as `flynn dashboard` opens it; undefined where there is none. */
export function tokenOf({ pathname, hash }: { pathname: string; hash: string }): string | undefined {
  if (pathname !== '/login' || hash.length < 2) return undefined;
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return undefined;
  }
}

export function roleText({ kind, role, apps, token }: Identity): string {
  if (kind === 'root' && token === undefined) return 'root key';
  if (role !== 'none') return role;
  return apps.length === 0 ? 'no role yet' : `roles on ${apps.length === 1 ? 'one app' : `${apps.length} apps`}`;
}
