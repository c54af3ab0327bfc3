/** What is a new datastore called, and what may be asked for? Pure, and without schemas: pages of the dashboard do this, too. */

export const maxMembers = 5;

/** `appliance:postgres`: the platform makes it itself. */
export const applianceProtocol = 'appliance:';

export function isApplianceUrl(url: string): boolean {
  return url.startsWith(applianceProtocol);
}

/** How many of a kind may be called after one app. */
export const maxNames = 50;
/** Of an app. */
const maxNameLength = 30;

/** `shop-postgres`, after the first of its apps; what begins with another's data is called as that: `shop-postgres-2`. */
export function datastoreName(
  kind: string,
  { owner, source }: { owner?: string | undefined; source?: string | undefined },
  number: number,
): string {
  const room = maxNameLength - `-${maxNames}`.length;
  const prefix = owner === undefined ? '' : `${cut(owner, room - kind.length - 1)}-`;
  const base = source === undefined ? `${prefix}${kind}` : cut(source, room);
  return number === 1 ? base : `${base}-${number}`;
}

function cut(name: string, length: number): string {
  return name.slice(0, length).replace(/-+$/, '');
}
