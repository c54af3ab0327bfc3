/** Has somebody opened a link to log in with? In a new tab, or in one in which this page was open already. */
import { tokenOf } from './session.ts';

/** Of a window, what there is to it here. */
export type LinkWindow = Pick<EventTarget, 'addEventListener' | 'removeEventListener'> & {
  readonly location: Readonly<{ pathname: string; hash: string }>;
  readonly history: Readonly<{ replaceState: (state: unknown, title: string, to: string) => void }>;
};

/** The token of the address, which is in neither address nor history from then on. */
export function takeToken({ location, history }: LinkWindow): string | undefined {
  const token = tokenOf(location);
  if (token !== undefined) history.replaceState(undefined, '', '/login');
  return token;
}

/** A page that is open is not loaded again for what stands behind #. Answers what ends it. */
export function followTokens(page: LinkWindow, onToken: (token: string) => void): () => void {
  const listen = () => {
    const token = takeToken(page);
    if (token !== undefined) onToken(token);
  };
  for (const event of events) page.addEventListener(event, listen);
  return () => {
    for (const event of events) page.removeEventListener(event, listen);
  };
}

/** The first comes with the navigation itself, the other later, and is all that some browsers send. */
const events = ['popstate', 'hashchange'] as const;
