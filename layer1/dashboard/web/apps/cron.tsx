/** What an app runs on a schedule, and how that went. */
import type { crons } from '@flynn/controller/cron/api';
import type { Cron, CronRun } from '@flynn/controller/cron/model';
import type { App } from '@flynn/controller/model';
import { ActButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import type { Tone } from '../parts/tone.ts';
import { useEvery, useLoaded } from '../parts/loading.ts';
import { Commands, Empty, Shown } from '../parts/notices.tsx';
import { Section } from '../parts/section.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { durationText } from '../text.ts';
import { mayChange } from '../world/abilities.ts';

const runTones: Readonly<Record<CronRun['state'], Tone>> = {
  running: 'busy',
  done: 'good',
  failed: 'bad',
  skipped: 'quiet',
};

export function CronLines({ app }: { app: App }) {
  const { api } = useServices();
  const { loaded, reload, refresh } = useLoaded(
    app.id,
    (signal) => api.call<typeof crons.list>('GET /apps/:app/cron', { params: { app: app.name } }, { signal }),
    app.releaseId,
  );
  useEvery(10_000, refresh);
  return (
    <Shown loaded={loaded} what="the schedule" reload={reload}>
      {(found) =>
        found.length === 0 ? (
          <Empty title="Nothing runs on a schedule.">
            <p>Lines of app.json in the root of the code do, once they are pushed:</p>
            <Commands lines={['{ "cron": [{ "schedule": "0 3 * * *", "command": "npm run clean" }] }']} />
          </Empty>
        ) : (
          <>
            {found.map((line) => (
              <Line key={line.id} app={app} line={line} onChange={reload} />
            ))}
          </>
        )
      }
    </Shown>
  );
}

function Line({ app, line, onChange }: { app: App; line: Cron; onChange: () => void }) {
  const { api, session } = useServices();
  const params = { app: app.name, cron: line.id };
  const act = (name: 'run' | 'pause' | 'resume') => async (once: string) => {
    await api.call<(typeof crons)[typeof name]>(`POST /apps/:app/cron/:cron/${name}`, { params }, { once });
    onChange();
  };
  return (
    <Section
      title={line.command}
      side={
        mayChange(app, session.identity) ? (
          <>
            <ActButton label="Run now" name={`Run ${line.command} now`} act={act('run')} />
            {line.isPaused ? (
              <ActButton label="Resume" name={`Resume ${line.command}`} act={act('resume')} />
            ) : (
              <ActButton label="Pause" name={`Pause ${line.command}`} act={act('pause')} />
            )}
          </>
        ) : undefined
      }
    >
      <p>
        <code>{line.schedule}</code> {line.timezone ?? 'UTC'},{' '}
        {line.isPaused ? (
          <Badge tone="warn">paused</Badge>
        ) : (
          <>
            next <Time at={line.nextAt} />
          </>
        )}
      </p>
      {line.runs.length === 0 ? (
        <p class="dim">It has not run yet.</p>
      ) : (
        <Table caption={`Runs of ${line.command}`} head={['Begun', 'Outcome', '-Took', '-For']}>
          {line.runs.map((run) => (
            <tr key={`${run.startedAt} ${run.workloadId ?? ''}`}>
              <th scope="row">
                <Time at={run.startedAt} />
              </th>
              <td>
                <Badge tone={runTones[run.state]}>{run.state}</Badge>
                {run.error === undefined && (run.exitCode ?? 0) === 0 ? null : (
                  <p class="note words">
                    {run.error ?? `exit code ${run.exitCode ?? ''}`}
                    {run.skips === undefined ? '' : `: ${run.skips} ticks, of which this was the last`}
                  </p>
                )}
              </td>
              <td class="wide">
                {run.endedAt === undefined ? '–' : durationText(Date.parse(run.endedAt) - Date.parse(run.startedAt))}
              </td>
              <td class="wide">{run.tick === undefined ? 'asked for by hand' : <Time at={run.tick} />}</td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}
