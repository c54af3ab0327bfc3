/** Certificates of host names, and where they come from. */
import type { certificates } from '@flynn/controller/certificates/api';
import { certificateTone } from '../apps/route-certificate.ts';
import { asFailure } from '../api/failure.ts';
import { Badge } from '../parts/badge.tsx';
import { useLoaded } from '../parts/loading.ts';
import { Commands, Empty, Shown } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';

export function Certificates() {
  const { api } = useServices();
  const { loaded, reload } = useLoaded('certificates', async (signal) => {
    const [found, authority] = await Promise.all([
      api.call<typeof certificates.list>('GET /certificates', { query: {} }, { signal }),
      api
        .call<typeof certificates.getAuthority>('GET /certificate-authority', {}, { signal })
        .catch((error: unknown) => {
          if (asFailure(error).code === 'not_found') return undefined;
          throw error;
        }),
    ]);
    return { found, authority };
  });
  return (
    <Shown loaded={loaded} what="certificates" reload={reload}>
      {({ found, authority }) => (
        <>
          <p>
            {authority === undefined ? (
              'Certificates do not come by themselves.'
            ) : (
              <>
                They come from <code class="words">{authority.directoryUrl}</code> by {authority.challenge}
                {authority.isAutomatic ? ', for every route of a public name.' : ', for those that are asked for.'}
              </>
            )}
          </p>
          {found.length === 0 ? (
            <Empty title="There is no certificate.">
              <Commands lines={['flynn route cert authority set letsencrypt --email ops@example.com']} />
            </Empty>
          ) : (
            <Table caption="Certificates" head={['Names', 'State', 'Until', '-From', '-Next try']}>
              {found.map((one) => (
                <tr key={one.id}>
                  <th scope="row">{one.domains.join(', ')}</th>
                  <td>
                    <Badge tone={certificateTone[one.state]}>{one.state}</Badge>
                    {one.why === '' ? null : <p class="note words">{one.why}</p>}
                  </td>
                  <td>
                    <Time at={one.notAfter} />
                  </td>
                  <td class="wide">{one.source === 'own' ? 'brought by hand' : (one.issuer ?? 'the authority')}</td>
                  <td class="wide">
                    <Time at={one.nextTryAt} />
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </>
      )}
    </Shown>
  );
}
