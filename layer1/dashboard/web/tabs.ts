/** All tabs of a browser have one login: what changes it in one of them is told to the others. */

/** Of a BroadcastChannel, what there is to it here. */
export type TabChannel = Pick<EventTarget, 'addEventListener' | 'removeEventListener'> & {
  postMessage: (change: unknown) => void;
};

/** Somebody has logged in, maybe as another person; or out. */
export type LoginChange = 'in' | 'out';

export function tellTabs(tabs: TabChannel, change: LoginChange): void {
  // It reaches this address alone, and takes no target.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  tabs.postMessage(change);
}

/** Hears what other tabs have told. Answers what ends it. */
export function followTabs(tabs: TabChannel, onChange: (change: LoginChange) => void): () => void {
  const listen = (event: Event) => {
    const told: unknown = 'data' in event ? event.data : undefined;
    // A tab of another version may tell more.
    if (told === 'in' || told === 'out') onChange(told);
  };
  tabs.addEventListener('message', listen);
  return () => tabs.removeEventListener('message', listen);
}
