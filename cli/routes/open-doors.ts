/**
 * Each route says for itself who gets in: where the same service is open beside one that was closed is told, for it is easily
 * overlooked.
 */
import { routing } from '@flynn/controller/routes/api';
import type { Route } from '@flynn/controller/model';
import type { Context } from '../context.ts';

const most = 5;

/** `closed`: it was just said who gets in there. */
export async function tellOpenDoors(context: Context, closed: Route): Promise<void> {
  if (closed.http.access === undefined) return;
  const client = await context.client();
  const all = await client.call(routing.list, { params: { app: await context.appName() } });
  const open = all.filter(({ service, http }) => service === closed.service && http.access === undefined);
  if (open.length === 0) return;
  const names = open.slice(0, most).map(placeOf).join(', ');
  const more = open.length > most ? ` and ${open.length - most} more` : '';
  context.tell(
    `flynn: everybody still reaches ${closed.service} by ${names}${more}: each route says for itself who gets in`,
  );
}

function placeOf({ domain, path, port }: Route): string {
  if (port !== undefined) return `tcp:${port}`;
  return `${domain ?? ''}${path === '/' ? '' : path}`;
}
