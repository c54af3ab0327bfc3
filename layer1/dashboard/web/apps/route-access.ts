/** Who gets in at a route, in a few words. Pure. */
import type { RouteView } from '@flynn/controller/routes/api';

/** Empty where everybody does. */
export function accessText(access: RouteView['http']['access']): string {
  if (access === undefined) return '';
  const users = Object.keys(access.users);
  const ways = [
    users.length === 0 ? '' : `a password (${users.join(', ')})`,
    access.allow.length === 0 ? '' : `an address (${access.allow.join(', ')})`,
  ].filter((way) => way !== '');
  return `only with ${ways.join(access.needs === 'any' ? ' or ' : ' and ')}`;
}
