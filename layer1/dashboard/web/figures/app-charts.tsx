/** What an app took and did in the last hour: charts, and the same as a table. */
import { useRef } from 'preact/hooks';
import type { figures } from '@flynn/controller/figures/api';
import type { App, Deployment } from '@flynn/controller/model';
import { useEvery, useLoaded } from '../parts/loading.ts';
import { FailureNotice } from '../parts/notices.tsx';
import { Section } from '../parts/section.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { bytesText, millisecondsText, rateText } from '../text.ts';
import { Chart, type Mark } from './chart.tsx';
import { type Column, type Hour, hourOf, isOld, knowsMore, pointsKept, spansOf, startOf, sumOf } from './hour.ts';

const everyMs = 15_000;
/** Of the table: five minutes. */
const spanPoints = 20;
const tones = 6;

/** `types` that are wanted, and `isAsked`, that there is a route to it: what there is to be drawn, before it is known. */
export function AppCharts(props: {
  app: App;
  types: readonly string[];
  deployments: readonly Deployment[];
  isAsked: boolean;
}) {
  const { app, types, deployments, isAsked } = props;
  const { api } = useServices();
  const known = useRef<Hour | undefined>(undefined);
  const { loaded, reload, refresh } = useLoaded(app.id, async (signal) => {
    const before = known.current;
    const ask = (query: { since?: string }) => {
      const input = { params: { app: app.name }, query };
      return api.call<typeof figures.ofApp>('GET /apps/:app/figures', input, { signal });
    };
    const told = await ask(before === undefined ? {} : { since: new Date(before.endMs).toISOString() });
    known.current = hourOf(knowsMore(told, before) ? await ask({}) : told, before);
    return known.current;
  });
  useEvery(everyMs, refresh);
  // A controller of a version before knows no figures.
  if (loaded.is !== 'loading' && loaded.failure?.code === 'not_found') return null;
  const hour = loaded.is === 'ready' ? loaded.value : nothing(Date.now(), types);
  const startMs = startOf(hour);
  const sinceMs = hour.knownSinceMs ?? hour.endMs;
  return (
    <Section
      title="Last hour"
      side={
        loaded.is === 'ready' && sinceMs > startMs + hour.stepMs ? (
          <span class="dim">
            looked at since <Time at={new Date(sinceMs).toISOString()} />
          </span>
        ) : null
      }
    >
      {loaded.is === 'loading' || loaded.failure === undefined ? null : (
        <FailureNotice failure={loaded.failure} onRetry={reload} />
      )}
      {hour.isLeftOut ? (
        <p class="notice notice-warn">Not all of it is known: there are more apps than there is room for.</p>
      ) : null}
      <HourCharts
        name={app.name}
        hour={hour}
        isAsked={isAsked || hour.requests !== undefined}
        knownFrom={Math.max(0, Math.round((sinceMs - startMs) / hour.stepMs))}
        marks={marksOf(deployments, hour)}
        nowMs={Date.now()}
      />
    </Section>
  );
}

const empty: Column = [];
const none = { jobs: empty, cpu: empty, memoryBytes: empty, memoryLimitBytes: empty };

/** It takes the room that what is read is to have. */
function nothing(nowMs: number, names: readonly string[]): Hour {
  const endMs = Math.floor(nowMs / everyMs) * everyMs;
  const types = names.map((type) => Object.assign({ type }, none));
  return { endMs, stepMs: everyMs, knownSinceMs: undefined, isLeftOut: false, types, requests: undefined };
}

/** Deployments of this hour, by when they began. */
export function marksOf(deployments: readonly Pick<Deployment, 'id' | 'createdAt'>[], hour: Hour): Mark[] {
  const startMs = startOf(hour);
  return deployments.flatMap(({ id, createdAt }) => {
    const at = Math.round((Date.parse(createdAt) - startMs) / hour.stepMs);
    return at >= 0 && at < pointsKept ? [{ id, at, name: 'deployment' }] : [];
  });
}

/** All of it. `isAsked`: requests too. */
export function HourCharts(props: {
  name: string;
  hour: Hour;
  isAsked: boolean;
  knownFrom: number;
  marks: readonly Mark[];
  nowMs: number;
}) {
  const { name, hour, isAsked, nowMs, ...place } = props;
  const { types, requests, endMs, stepMs } = hour;
  const common = { ...place, endMs, stepMs, isOld: isOld(hour, nowMs) };
  const named = types.length === 0 ? [Object.assign({ type: '–' }, none)] : types;
  return (
    <>
      <div class="charts">
        <Chart
          {...common}
          title="Processors"
          text={rateText}
          least={0.1}
          lines={named.map(({ type, cpu }, index) => ({ name: type, tone: toneOf(index), column: cpu }))}
        />
        <Chart
          {...common}
          title="Memory"
          text={bytesText}
          least={16 * 1024 ** 2}
          isBinary
          lines={named.map(({ type, memoryBytes, memoryLimitBytes }, index) => ({
            name: type,
            tone: toneOf(index),
            column: memoryBytes,
            note: (at) => {
              const limit = memoryLimitBytes[at] ?? null;
              return limit === null ? undefined : ` of ${bytesText(limit)}`;
            },
          }))}
        />
        {isAsked ? (
          <>
            <Chart
              {...common}
              title="Requests a second"
              text={rateText}
              least={1}
              lines={[
                { name: 'all', tone: toneOf(0), column: requests?.perSecond ?? empty },
                { name: '4xx', tone: 'line-warn', column: requests?.clientErrorsPerSecond ?? empty, isRare: true },
                { name: '5xx', tone: 'line-bad', column: requests?.serverErrorsPerSecond ?? empty, isRare: true },
              ]}
            />
            <Chart
              {...common}
              title="Response time"
              text={millisecondsText}
              least={10}
              lines={[
                { name: '50 %', tone: toneOf(1), column: requests?.p50Ms ?? empty },
                { name: '95 %', tone: toneOf(0), column: requests?.p95Ms ?? empty },
                { name: '99 %', tone: toneOf(2), column: requests?.p99Ms ?? empty },
              ]}
            />
          </>
        ) : null}
      </div>
      <details>
        <summary>As a table</summary>
        <HourTable name={name} hour={hour} isAsked={isAsked} />
      </details>
    </>
  );
}

function toneOf(index: number): string {
  return `line-${(index % tones) + 1}`;
}

function HourTable({ name, hour, isAsked }: { name: string; hour: Hour; isAsked: boolean }) {
  const { types, requests, endMs, stepMs } = hour;
  const spans = (column: Column | undefined, text: (value: number) => string, of: 'average' | 'highest') =>
    spansOf(column ?? empty, spanPoints, of).map((value) => (value === undefined ? '–' : text(value)));
  const columns = [
    spans(sumOf(types, 'cpu'), rateText, 'average'),
    spans(sumOf(types, 'memoryBytes'), bytesText, 'average'),
    ...(isAsked
      ? [
          spans(requests?.perSecond, rateText, 'average'),
          spans(requests?.serverErrorsPerSecond, rateText, 'average'),
          spans(requests?.p95Ms, millisecondsText, 'highest'),
        ]
      : []),
  ];
  const head = ['Until', 'Processors', 'Memory', ...(isAsked ? ['Requests/s', '5xx/s', '95 %'] : [])];
  const count = pointsKept / spanPoints;
  return (
    <Table caption={`The last hour of ${name}, in spans of five minutes`} head={head}>
      {Array.from({ length: count }, (_, row) => (
        <tr key={row}>
          <th scope="row">{new Date(endMs - (count - 1 - row) * spanPoints * stepMs).toLocaleTimeString()}</th>
          {columns.map((column, index) => (
            <td key={head[index + 1]} class="figure">
              {column[row]}
            </td>
          ))}
        </tr>
      ))}
    </Table>
  );
}
