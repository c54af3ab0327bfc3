/** Which release of an app is live: it never changes, so it is read once. */
import { useEffect, useState } from 'preact/hooks';
import type { releases } from '@flynn/controller/api';
import type { Release } from '@flynn/controller/model';
import { Few } from '../parts/few.ts';
import { useServices } from '../parts/services.ts';
import { shortText } from '../text.ts';

/** A list of apps asks for that of each. */
const few = new Few(3);
const known = new Map<string, Promise<Pick<Release, 'version' | 'meta'>>>();

export function ReleaseName({ appId, releaseId }: { appId: string; releaseId: string | undefined }) {
  const { api } = useServices();
  const [release, setRelease] = useState<Pick<Release, 'version' | 'meta'> | undefined>();
  useEffect(() => {
    setRelease(undefined);
    if (releaseId === undefined) return undefined;
    let isWanted = true;
    const params = { app: appId, release: releaseId };
    // Of what is kept nothing is secret.
    const reading =
      known.get(releaseId) ??
      few
        .run(() => api.call<typeof releases.get>('GET /apps/:app/releases/:release', { params }))
        .then(({ version, meta }) => ({ version, meta }));
    known.set(releaseId, reading);
    reading
      .then((found) => (isWanted ? setRelease(found) : undefined))
      // One that is gone has no name; one that could not be read is asked for again next time.
      .catch(() => known.delete(releaseId));
    return () => {
      isWanted = false;
    };
  }, [appId, releaseId]);
  if (releaseId === undefined) return <span class="dim">–</span>;
  if (release === undefined) return <span class="dim">…</span>;
  const commit = release.meta['git.commit'];
  return (
    <span>
      v{release.version}
      {commit === undefined ? null : <code class="dim commit">{shortText(commit)}</code>}
    </span>
  );
}
