/** Is all well? What is wrong, why it matters, what to type; and every part of the platform. */
import type { Component, ClusterHealth, health } from '@flynn/controller/health/api';
import { Badge } from '../parts/badge.tsx';
import type { Tone } from '../parts/tone.ts';
import { Link } from '../parts/link.tsx';
import { useEvery, useLoaded } from '../parts/loading.ts';
import { Shown } from '../parts/notices.tsx';
import { Section } from '../parts/section.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { bytesText, countText } from '../text.ts';

const lookEveryMs = 10_000;

const healthTones: Readonly<Record<ClusterHealth['health'], readonly [tone: Tone, text: string]>> = {
  ok: ['good', 'all is well'],
  warning: ['warn', 'somebody has to see to something'],
  critical: ['bad', 'something does not work'],
};

export function Status() {
  const { api } = useServices();
  const { loaded, reload, refresh } = useLoaded('status', (signal) =>
    api.call<typeof health.get>('GET /status', { query: { patienceMs: 3_000 } }, { signal }),
  );
  useEvery(lookEveryMs, refresh);
  return (
    <Shown loaded={loaded} what="how the cluster is" reload={reload}>
      {(found) => {
        const [tone, text] = healthTones[found.health];
        return (
          <>
            <p class="verdict">
              <span role="status">
                <Badge tone={tone}>{text}</Badge>
              </span>{' '}
              <span class="dim">
                looked <Time at={found.checkedAt} />
              </span>
            </p>
            <Findings found={found} />
            <Components components={found.components} />
            <Members found={found} />
            <Events found={found} />
          </>
        );
      }}
    </Shown>
  );
}

function Findings({ found }: { found: ClusterHealth }) {
  if (found.findings.length + found.unknown.length === 0) return null;
  return (
    <ul class="findings">
      {found.findings.map((finding) => (
        <li key={`${finding.check} ${finding.subject} ${finding.what}`} class={`finding finding-${finding.severity}`}>
          <p>
            <Badge tone={finding.severity === 'critical' ? 'bad' : 'warn'}>{finding.severity}</Badge>{' '}
            <strong>{finding.subject}</strong> {finding.what}{' '}
            <span class="dim">
              since <Time at={finding.since} />
            </span>
          </p>
          <p class="dim">{finding.why}</p>
          <p class="words">
            <span class="dim">What to do:</span> {finding.remedy}
          </p>
        </li>
      ))}
      {found.unknown.map(({ check, subject, why }) => (
        <li key={`${check} ${subject}`} class="finding finding-warning">
          <p>
            <Badge tone="warn">unknown</Badge> <strong>{subject}</strong> {check} could not be looked at: {why}
          </p>
        </li>
      ))}
    </ul>
  );
}

function Components({ components }: { components: readonly Component[] }) {
  return (
    <Section title="Parts of the platform">
      <Table caption="Parts of the platform" head={['Part', 'Well', '-Where', '-Version']}>
        {components.map(({ name, app, wanted, healthy, versions, hosts }) => (
          <tr key={name}>
            <th scope="row">{app === undefined ? name : <Link to={{ is: 'app', name: app, tab: '' }}>{name}</Link>}</th>
            <td>
              <Badge tone={healthy >= wanted ? 'good' : healthy === 0 ? 'bad' : 'warn'}>
                {healthy} of {wanted}
              </Badge>
            </td>
            <td class="wide">
              {hosts.map(({ host, instances }) => (instances > 1 ? `${host} ×${instances}` : host)).join(', ')}
            </td>
            <td class="wide">{versions.join(', ')}</td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}

function Members({ found }: { found: ClusterHealth }) {
  return (
    <Section title="Store">
      <Table caption="Members of the store" head={['Member', 'State', '-Size', '-Version']}>
        {found.etcd.map((member) => (
          <tr key={member.endpoint}>
            <th scope="row">{member.hostId ?? member.endpoint}</th>
            <td>
              <Badge tone={member.isHealthy ? 'good' : 'bad'}>
                {member.isHealthy ? (member.isLeader ? 'leads' : 'well') : 'not well'}
              </Badge>
            </td>
            <td class="wide">{member.sizeBytes === undefined ? '–' : bytesText(member.sizeBytes)}</td>
            <td class="wide">{member.version ?? '–'}</td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}

function Events({ found }: { found: ClusterHealth }) {
  if (found.events.length === 0) return null;
  return (
    <Section title="What began and ended">
      <details>
        <summary>{countText(found.events.length, 'event')}</summary>
        <Table caption="What began and ended" head={['When', 'What', 'About']}>
          {found.events.map((event, at) => (
            <tr key={at}>
              <th scope="row">
                <Time at={event.at} />
              </th>
              <td>{event.what}</td>
              <td class="words">
                {event.subject} {event.text}
              </td>
            </tr>
          ))}
        </Table>
      </details>
    </Section>
  );
}
