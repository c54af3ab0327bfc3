/** Every kind there is: a new one is a module of its own and a line here. */
import { autoscaleKind } from '../autoscale/kind.ts';
import { acmeKind, certificateKind } from '../certificates/kind.ts';
import { appKind } from './app.ts';
import { drainKind } from './drain.ts';
import { formationKind } from './formation.ts';
import { defineKind } from './kind.ts';
import type { Kind } from './kind.ts';
import { keyKind } from './key.ts';
import { teamKind, tokenKind, userKind } from './people.ts';
import { routeKind } from './route.ts';
import { runnerKind } from './runner.ts';
import { cronKind } from './schedule.ts';
import { notificationKind } from '../notifications/kind.ts';
import { withoutEnv } from '../access/redaction.ts';
import { providerKind, resourceKind } from '../providers/kinds.ts';
import { artifactType, deploymentType, operationType, releaseType } from '../resources.ts';
import { runnerEnvKind } from '../runner-env/resource.ts';
import { sourceType } from '../source/resource.ts';

export const platformKinds: readonly Kind[] = [
  appKind,
  formationKind,
  autoscaleKind,
  routeKind,
  keyKind,
  cronKind,
  drainKind,
  notificationKind,
  providerKind,
  resourceKind,
  userKind,
  teamKind,
  tokenKind,
  runnerKind,
  runnerEnvKind,
  certificateKind,
  acmeKind,
  defineKind({
    type: artifactType,
    summary: 'images and slugs that releases run',
    columns: { TYPE: 'spec.type' },
    isReadOnly: true,
  }),
  defineKind({
    type: releaseType,
    summary: 'an app’s code and configuration as it ran once: made by pushes and by changes of the app',
    columns: { VERSION: 'spec.version', APP: 'owner', ARTIFACT: 'spec.artifactId' },
    isReadOnly: true,
    withoutSecrets: withoutEnv,
  }),
  defineKind({
    type: deploymentType,
    summary: 'how a release went live',
    columns: { APP: 'owner', RELEASE: 'spec.newReleaseId', STATE: 'status.state' },
    isReadOnly: true,
  }),
  defineKind({
    type: sourceType,
    summary: 'the branch of a repository that an app follows: flynn source',
    columns: { APP: 'owner', URL: 'spec.url', BRANCH: 'spec.branch', COMMIT: 'status.commit', ERROR: 'status.error' },
    isReadOnly: true,
  }),
  defineKind({
    type: operationType,
    summary: 'queued work: builds, releases, deploys',
    names: ['op', 'ops'],
    columns: { KIND: 'spec.kind', APP: 'owner', STATE: 'status.state' },
    isReadOnly: true,
    withoutSecrets: ({ asker: _asker, ...spec }) => spec,
  }),
];
