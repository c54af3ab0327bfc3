/** Which operations and deployments do not get on? Pure. */
import type { Found } from '@flynn/host-agent/doctor/finding';
import { lastWaitText } from '../deployments/phases.ts';
import type { DeploymentResource, OperationResource, RunnerResource } from '../resources.ts';

export type StuckFacts = Readonly<{
  /** Those under way. */
  operations: readonly OperationResource[];
  deployments: readonly DeploymentResource[];
  runners: readonly RunnerResource[];
  /** `app blog`. */
  nameOf: (appId: string) => string;
}>;

const marks = {
  queuedMs: 5 * 60_000,
  runningMs: 2 * 3_600_000,
  deployingMs: 3_600_000,
  /** A canary, or a deployment on hold, waits for people. */
  heldMs: 24 * 3_600_000,
  /** What runners say of themselves is written every 15 s or so. */
  runnerMs: 90_000,
} as const;

export function stuckFindings(facts: StuckFacts, now: number): Found[] {
  return [...runnerFindings(facts, now), ...operationFindings(facts, now), ...deploymentFindings(facts, now)];
}

function runnerFindings({ runners, operations }: StuckFacts, now: number): Found[] {
  const live = runners.filter(({ status }) => status.state === 'adopted' && now - status.seenAt < marks.runnerMs);
  if (live.length > 0 || runners.length + operations.length === 0) return [];
  const last = Math.max(0, ...runners.map(({ status }) => status.seenAt));
  return [
    {
      severity: 'critical',
      subject: 'runners',
      what: 'no runner is heard of',
      ...(last === 0 ? {} : { since: new Date(last).toISOString() }),
      why: `nobody carries out builds, releases and deployments: ${operations.length} wait`,
      remedy:
        'flynn -a runner ps; flynn -a runner log; one that waits to be let in: flynn runner list, flynn runner adopt ID',
    },
  ];
}

function operationFindings({ operations, nameOf }: StuckFacts, now: number): Found[] {
  const live = new Set(operations.map(({ id }) => id));
  return operations.flatMap(({ id, spec, status, createdAt }): Found[] => {
    const subject = nameOf(spec.appId);
    if (status.state === 'running') {
      const since = status.startedAt ?? createdAt;
      if (now - Date.parse(since) < marks.runningMs) return [];
      return [
        {
          severity: 'warning',
          subject,
          matter: `running ${spec.kind}`,
          what: `a ${spec.kind} goes on and on`,
          since,
          why: 'builds and deployments of that app wait for it',
          remedy: `flynn op log ${id} shows what it does; flynn op cancel ${id} ends it`,
        },
      ];
    }
    const isNext = !(spec.dependsOn ?? []).some((one) => live.has(one));
    if (!isNext || now - Date.parse(createdAt) < marks.queuedMs) return [];
    return [
      {
        severity: 'warning',
        subject,
        matter: `waiting ${spec.kind}`,
        what: `a ${spec.kind} waits to be taken by a runner`,
        since: createdAt,
        why: 'what was pushed or asked for is not carried out',
        remedy: `flynn op info ${id} tells what it waits for; flynn runner list tells who could take it`,
      },
    ];
  });
}

function deploymentFindings({ deployments, nameOf }: StuckFacts, now: number): Found[] {
  return deployments.flatMap(({ id, spec, status, createdAt, updatedAt }): Found[] => {
    const { state } = status;
    if (state === 'complete' || state === 'failed') return [];
    const subject = nameOf(spec.appId);
    const ageMs = now - Date.parse(createdAt);
    if (state === 'canary' || state === 'paused') {
      if (now - Date.parse(updatedAt) < marks.heldMs) return [];
      return [
        {
          severity: 'warning',
          subject,
          matter: 'deployment held',
          what: `a deployment is on hold (${state})`,
          since: updatedAt,
          why: 'two releases of it run side by side until somebody decides, and nothing else is deployed',
          remedy: `flynn deployment promote, or flynn deployment abort (${id})`,
        },
      ];
    }
    if (ageMs < marks.deployingMs) return [];
    return [
      {
        severity: 'warning',
        subject,
        matter: 'deployment',
        what: `a deployment goes on and on (${state})`,
        since: createdAt,
        why: 'nothing else of that app is deployed meanwhile',
        remedy:
          state === 'finishing'
            ? `flynn deployment follow ${id} shows how far it is: ${lastWaitText(status)}`
            : `flynn deployment follow ${id} shows what it waits for; flynn deployment abort ends it`,
      },
    ];
  });
}
