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

/** `shop-postgres`, after the first of its apps; `shop-postgres-2` where there is one. */
export function datastoreName(kind: string, owner: string | undefined, number: number): string {
  const room = maxNameLength - kind.length - `--${maxNames}`.length;
  const prefix = owner === undefined ? '' : `${owner.slice(0, room).replace(/-+$/, '')}-`;
  const base = `${prefix}${kind}`;
  return number === 1 ? base : `${base}-${number}`;
}
