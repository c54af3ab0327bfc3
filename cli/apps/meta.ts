/** Metadata of an app, changed name by name: what others set at the same time stays. */
import { apps } from '@flynn/controller/api';
import { changedMeta } from '@flynn/controller/apps/meta';
import type { MetaChange } from '@flynn/controller/apps/meta';
import type { App } from '@flynn/controller/model';
import { withSeen } from '@flynn/controller/releases/overtaken';
import type { Context } from '../context.ts';

export async function changeMeta(context: Context, app: string, metaChange: MetaChange): Promise<App> {
  const client = await context.client();
  const params = { app };
  return withSeen({ metaChange }, async (seen) => {
    if (seen.metaChange !== undefined) return client.call(apps.update, { params, body: seen });
    // A controller of a version before takes all of it at once, and the last to write it wins.
    const { meta } = await client.call(apps.get, { params });
    return client.call(apps.update, { params, body: { meta: changedMeta(meta, metaChange) } });
  });
}
