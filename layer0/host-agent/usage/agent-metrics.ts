/** The agent's own figures and those of its jobs, put together for Prometheus. */
import type { JobStatus } from '@flynn/scheduler/cell';
import type { HostUse, JobUse } from '../api.ts';
import type { Metric } from '@flynn/kit/metrics';

export type AgentFigures = Readonly<{
  host: HostUse;
  jobs: readonly JobUse[];
  statuses: readonly JobStatus[];
  leaseLeftMs: number | undefined;
  fencedJobs: number;
  isEngineConnected: boolean;
  isEngineHung: boolean;
  engineLosses: number;
  linesShipped: number;
  linesDropped: number;
  imagesRemoved: number;
  isDiskFull: boolean;
}>;

export function agentMetrics(figures: AgentFigures): Metric[] {
  const { host, jobs, statuses } = figures;
  const states = Map.groupBy(statuses, ({ state }) => state);
  const metaOf = new Map(statuses.map(({ id, meta }) => [id, meta]));
  const usage = process.memoryUsage();
  const cpu = process.cpuUsage();
  const ofJobs = (name: string, help: string, type: Metric['type'], valueOf: (use: JobUse) => number | undefined) => {
    const samples = jobs.flatMap((use) => {
      const value = valueOf(use);
      const meta = metaOf.get(use.jobId);
      const labels = { job: use.jobId, app: meta?.['flynn.app_name'] ?? '', type: meta?.['flynn.type'] ?? '' };
      return value === undefined ? [] : [{ labels, value }];
    });
    return { name, help, type, samples };
  };
  return [
    {
      name: 'flynn_host_jobs',
      help: 'Jobs by state, ended ones included.',
      type: 'gauge',
      samples: [...states].map(([state, { length }]) => ({ labels: { state }, value: length })),
    },
    counter(
      'flynn_host_job_restarts_total',
      'Restarts of the jobs listed.',
      sum(statuses, ({ restarts }) => restarts),
    ),
    gauge('flynn_host_lease_left_seconds', "How long the host's lease lasts.", (figures.leaseLeftMs ?? 0) / 1_000),
    counter('flynn_host_fenced_jobs_total', 'Jobs stopped because the lease was lost.', figures.fencedJobs),
    gauge('flynn_host_engine_connected', 'Whether the container engine answers.', Number(figures.isEngineConnected)),
    gauge('flynn_host_engine_hung', 'Whether it answers and ends nothing.', Number(figures.isEngineHung)),
    counter('flynn_host_engine_losses_total', 'How often the container engine was lost.', figures.engineLosses),
    counter('flynn_host_log_lines_shipped_total', 'Log lines handed on.', figures.linesShipped),
    counter('flynn_host_log_lines_dropped_total', 'Log lines dropped for a slow reader.', figures.linesDropped),
    counter('flynn_host_images_removed_total', 'Images removed because nobody needed them.', figures.imagesRemoved),
    gauge('flynn_host_disk_full', 'Whether the host takes no jobs for want of disk.', Number(figures.isDiskFull)),
    gauge('flynn_host_disk_used_bytes', "Used of the engine's disk.", host.disk.usedBytes),
    gauge('flynn_host_disk_bytes', "Size of the engine's disk.", host.disk.totalBytes),
    gauge('flynn_host_memory_used_bytes', "Used of the machine's memory.", host.memoryUsedBytes),
    gauge('flynn_host_memory_bytes', "The machine's memory.", host.memoryBytes),
    gauge('flynn_host_cpu_percent', 'Of one core, since the last look.', host.cpuPercent),
    gauge('flynn_host_agent_memory_bytes', "The agent's own memory.", usage.rss),
    counter('flynn_host_agent_cpu_seconds_total', "The agent's own processor time.", (cpu.user + cpu.system) / 1e6),
    ofJobs('flynn_job_cpu_seconds_total', 'Processor time.', 'counter', (use) => use.cpuSeconds),
    ofJobs('flynn_job_memory_bytes', 'Memory without caches.', 'gauge', (use) => use.memoryBytes),
    ofJobs('flynn_job_pids', 'Processes and threads.', 'gauge', (use) => use.pids),
    ofJobs('flynn_job_network_received_bytes_total', 'Received.', 'counter', (use) => use.network?.receivedBytes),
    ofJobs('flynn_job_network_sent_bytes_total', 'Sent.', 'counter', (use) => use.network?.sentBytes),
    ofJobs('flynn_job_disk_written_bytes', 'Written over the image.', 'gauge', (use) => use.disk?.writableBytes),
    ofJobs('flynn_job_volume_bytes', 'In its volumes.', 'gauge', (use) => use.disk?.volumeBytes),
  ];
}

function counter(name: string, help: string, value: number): Metric {
  return { name, help, type: 'counter', samples: [{ value }] };
}

function gauge(name: string, help: string, value: number): Metric {
  return { name, help, type: 'gauge', samples: [{ value }] };
}

function sum<T>(values: readonly T[], valueOf: (value: T) => number): number {
  return values.reduce((total, value) => total + valueOf(value), 0);
}
