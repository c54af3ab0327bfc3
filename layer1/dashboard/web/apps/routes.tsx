/** Where an app is reached, with what certificate, and how that goes. */
import { useId, useState } from 'preact/hooks';
import type { certificates } from '@flynn/controller/certificates/api';
import type { Certificate } from '@flynn/controller/certificates/model';
import type { RouteView, routing } from '@flynn/controller/routes/api';
import type { RouteStats } from '@flynn/controller/routes/stats';
import { latencyAt } from '@flynn/controller/routes/latency';
import { AskedButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import { useAction, useEvery, useLoaded } from '../parts/loading.ts';
import { Commands, DoingNotice, Empty, Shown } from '../parts/notices.tsx';
import { Section } from '../parts/section.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { bytesText, countText, figureText, millisecondsText } from '../text.ts';
import { mayChange } from '../world/abilities.ts';
import type { AppView } from '../world/app-state.ts';
import { urlOf } from './app-url.ts';
import { accessText } from './route-access.ts';
import { certificateOf, certificateTone, isShown } from './route-certificate.ts';

const statsEveryMs = 10_000;

export function Routes({ view }: { view: AppView }) {
  const { api, session } = useServices();
  const { app } = view;
  const params = { app: app.name };
  // The stream of changes does not tell of certificates.
  const known = view.routes.map(({ id, revision }) => `${id} ${revision ?? 0}`).join();
  const { loaded, reload } = useLoaded(
    app.id,
    async (signal) => {
      const [routes, certs] = await Promise.all([
        api.call<typeof routing.list>('GET /apps/:app/routes', { params, query: {} }, { signal }),
        api.call<typeof certificates.list>('GET /certificates', { query: {} }, { signal }),
      ]);
      return { routes, certs };
    },
    known,
  );
  const isOwn = mayChange(app, session.identity);
  return (
    <Shown loaded={loaded} what="routes" reload={reload}>
      {({ routes, certs }) => (
        <>
          {routes.length === 0 ? (
            <Empty title="It has no route: nobody outside reaches it.">
              <Commands lines={[`flynn -a ${app.name} route add http shop.example.com`]} />
            </Empty>
          ) : (
            <Table
              caption={`Routes of ${app.name}`}
              head={['Address', '-Service', 'Certificate', '-Settings', ...(isOwn ? ['Actions'] : [])]}
            >
              {routes.map((route) => (
                <RouteRow
                  key={route.id}
                  view={view}
                  route={route}
                  certificate={certificateOf(route, certs)}
                  isOwn={isOwn}
                  onChange={reload}
                />
              ))}
            </Table>
          )}
          {isOwn ? <NewRoute app={app.name} onAdded={reload} /> : null}
          {routes.length === 0 ? null : <Stats app={app.name} routes={routes} />}
        </>
      )}
    </Shown>
  );
}

function RouteRow(props: {
  view: AppView;
  route: RouteView;
  certificate: Certificate | undefined;
  isOwn: boolean;
  onChange: () => void;
}) {
  const { view, route, certificate, isOwn, onChange } = props;
  const { api, session } = useServices();
  const url = urlOf(route, session.cluster);
  return (
    <tr>
      <th scope="row">
        {route.type === 'http' && route.domain?.includes('*') !== true ? (
          <a href={url} rel="noreferrer" target="_blank">
            {route.domain}
            {route.path === '/' ? '' : route.path}
          </a>
        ) : (
          url
        )}
      </th>
      <td class="wide">{route.service}</td>
      <td>
        <CertificateState route={route} certificate={certificate} />
      </td>
      <td class="wide">{settingsText(route)}</td>
      {isOwn ? (
        <td class="row-acts">
          <AskedButton
            label="Remove"
            name={`Remove ${url}`}
            title={`Remove ${url}?`}
            confirm="Remove it"
            isDanger
            act={async () => {
              const params = { app: view.app.name, route: route.id };
              await api.call<typeof routing.remove>('DELETE /apps/:app/routes/:route', { params, query: {} });
              onChange();
            }}
          >
            <p>Requests there are answered with 404 from then on. The app runs on.</p>
          </AskedButton>
        </td>
      ) : null}
    </tr>
  );
}

function CertificateState({ route, certificate }: { route: RouteView; certificate: Certificate | undefined }) {
  if (route.type === 'tcp') return <span class="dim">the app's own, if any</span>;
  if (certificate === undefined) {
    return route.httpsPort === undefined ? (
      <Badge tone="quiet">none, in clear</Badge>
    ) : (
      <Badge tone="good">of the cluster</Badge>
    );
  }
  return (
    <>
      <Badge tone={certificateTone[certificate.state]}>{certificate.state}</Badge>{' '}
      <span class="dim">
        {!isShown(certificate, route) ? null : (
          <>
            until <Time at={certificate.notAfter} />
          </>
        )}
      </span>
      {certificate.why === '' ? null : <p class="note words">{certificate.why}</p>}
    </>
  );
}

function settingsText({ http, type }: RouteView): string {
  if (type === 'tcp') return '';
  const said = [
    http.maintenance === undefined ? '' : 'maintenance',
    accessText(http.access),
    http.https.redirect ? 'redirects to https' : '',
    http.sticky ? 'sticky' : '',
    http.leader ? 'leader only' : '',
    http.canonicalHost === undefined ? '' : `→ ${http.canonicalHost}`,
    http.weights.length === 0 ? '' : 'shares by release',
    Object.keys(http.limits).length === 0 ? '' : 'limits',
  ];
  return said.filter((text) => text !== '').join(', ');
}

function NewRoute({ app, onAdded }: { app: string; onAdded: () => void }) {
  const { api } = useServices();
  const [domain, setDomain] = useState('');
  const id = useId();
  const { doing, run } = useAction(async (once, wanted: string) => {
    const [name = '', ...path] = wanted.split('/');
    const body = { type: 'http' as const, domain: name, ...(path.length === 0 ? {} : { path: `/${path.join('/')}` }) };
    await api.call<typeof routing.create>('POST /apps/:app/routes', { params: { app }, query: {}, body }, { once });
    setDomain('');
    onAdded();
  });
  const submit = (event: Event) => {
    event.preventDefault();
    void run(domain.trim());
  };
  return (
    <form class="inline" onSubmit={submit}>
      <label for={id}>Another address</label>
      <input
        id={id}
        value={domain}
        placeholder="shop.example.com"
        autoComplete="off"
        autoCapitalize="off"
        spellcheck={false}
        onInput={(event) => setDomain(event.currentTarget.value)}
      />
      <button
        type="submit"
        class="plain"
        disabled={doing.is === 'pending' || domain.trim() === ''}
        aria-busy={doing.is === 'pending'}
      >
        Add route
      </button>
      <DoingNotice doing={doing} />
    </form>
  );
}

function Stats({ app, routes }: { app: string; routes: readonly RouteView[] }) {
  const { api } = useServices();
  const { loaded, reload, refresh } = useLoaded(app, (signal) =>
    api.call<typeof routing.stats>('GET /apps/:app/route-stats', { params: { app }, query: {} }, { signal }),
  );
  useEvery(statsEveryMs, refresh);
  return (
    <Section title="Requests">
      <Shown loaded={loaded} what="figures" reload={reload}>
        {({ routes: found, routers, silent }) => (
          <>
            {found.length === 0 ? (
              <p class="dim">No request yet, since the routers began to count.</p>
            ) : (
              <Table
                caption={`Requests of ${app}`}
                head={['Address', 'Requests', '-4xx', '5xx', '-Median', '95 %', '-Now', '-In', '-Out', '-Since']}
              >
                {found.map((stats) => (
                  <StatsRow key={stats.id} stats={stats} route={routes.find(({ id }) => id === stats.id)} />
                ))}
              </Table>
            )}
            <p class="dim">
              Counted by {countText(routers, 'router')} since their start.
              {silent.length === 0
                ? ''
                : ` Not asked: ${silent.map(({ address, why }) => `${address} (${why})`).join(', ')}.`}
            </p>
          </>
        )}
      </Shown>
    </Section>
  );
}

function StatsRow({ stats, route }: { stats: RouteStats; route: RouteView | undefined }) {
  const { requests, answers, latency } = stats;
  const at = (share: number) => {
    const ms = latencyAt(share, latency);
    return ms === undefined ? '–' : millisecondsText(ms);
  };
  const refused = Object.entries(stats.refusals).map(([code, count]) => `${code} ${count}`);
  return (
    <tr>
      <th scope="row">
        {route?.domain ?? (route?.port === undefined ? stats.service : `port ${route.port}`)}
        {refused.length === 0 ? null : <p class="note">answered by the router itself: {refused.join(', ')}</p>}
      </th>
      <td>{figureText(requests)}</td>
      <td class="wide">{figureText(answers['4xx'])}</td>
      <td class={answers['5xx'] > 0 ? 'short' : undefined}>{figureText(answers['5xx'])}</td>
      <td class="wide">{at(0.5)}</td>
      <td>{at(0.95)}</td>
      <td class="wide">{stats.active}</td>
      <td class="wide">{bytesText(stats.bytesIn)}</td>
      <td class="wide">{bytesText(stats.bytesOut)}</td>
      <td class="wide">
        <Time at={new Date(stats.sinceMs).toISOString()} />
      </td>
    </tr>
  );
}
