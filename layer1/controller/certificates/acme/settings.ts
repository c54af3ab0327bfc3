/** Setting the authority, and asking it for certificates. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { parseCertificate } from '@flynn/kit/certificate';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { z } from 'zod';
import { principalOf } from '../../access/principal.ts';
import type { Deps } from '../../deps.ts';
import { normalizeDomain } from '../../routes/address.ts';
import { certificates } from '../api.ts';
import { checkHolds, checkReplaces, domainOwners } from '../domains.ts';
import type { AcmeView } from '../model.ts';
import { put } from '../put.ts';
import { certificateType } from '../resources.ts';
import type { CertificateResource } from '../resources.ts';
import { viewCertificate } from '../view.ts';
import { newKey } from './authority.ts';
import { checkNames } from './names.ts';
import { acmeId, acmeType } from './resources.ts';
import type { AcmeSpec } from './resources.ts';

type Wanted = z.output<NonNullable<typeof certificates.setAuthority.body>>;

export function acmeHandlers(deps: Deps): Handler[] {
  const { resources, now } = deps;
  return [
    handle(certificates.setAuthority, async ({ body, signal }) => {
      check(body);
      const view = viewAcme(await setAuthority(deps, body, signal));
      await askAgain(deps, signal);
      return view;
    }),
    handle(certificates.getAuthority, async ({ signal }) => viewAcme((await authorityOf(deps, signal)).spec)),
    handle(certificates.unsetAuthority, async ({ signal }) => {
      await resources.delete(acmeType, (await authorityOf(deps, signal)).id, { signal });
    }),
    handle(certificates.request, async (call) => {
      const { signal } = call;
      const domains = [...new Set(call.body.domains.map(normalizeDomain))];
      const owners = await domainOwners(deps, principalOf(call), signal);
      checkHolds(owners, domains, 'developer');
      const { spec: acme } = await authorityOf(deps, signal);
      checkNames(domains, acme.challenge);
      const replace = (known: CertificateResource) => {
        checkReplaces(owners, known.spec.domains, 'developer');
        return statusAsked(known);
      };
      return viewCertificate(
        await put(deps, { source: 'acme', domains, isAutomatic: false }, { replace, signal }),
        now(),
      );
    }),
  ];
}

async function authorityOf({ resources }: Pick<Deps, 'resources'>, signal: AbortSignal) {
  const found = await resources.find(acmeType, acmeId, { signal });
  if (found !== undefined) return found;
  throw new FlynnError(
    'not_found',
    'no authority is set, so certificates are brought by hand; set one with: flynn route cert authority set letsencrypt --email YOU (or the URL of another authority)',
  );
}

function check({ directoryUrl, challenge, hook, ca }: Wanted): void {
  for (const [what, url] of [
    ['a directory', directoryUrl],
    ['a hook', hook?.url],
  ] as const) {
    if (url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? '')) {
      throw new FlynnError('invalid', `"${url}" is no address of ${what}: it begins with https://`);
    }
  }
  if (challenge === 'dns-01' && hook === undefined) {
    throw new FlynnError('invalid', 'dns-01 needs a hook that makes the records: see docs/certificates.md');
  }
  if (ca !== undefined) parseCertificate(ca);
}

/** The same directory keeps its account. */
async function setAuthority(
  { resources }: Pick<Deps, 'resources'>,
  wanted: Wanted,
  signal: AbortSignal,
): Promise<AcmeSpec> {
  const known = await resources.find(acmeType, acmeId, { signal });
  const isSame =
    known?.spec.directoryUrl === wanted.directoryUrl && known.spec.binding?.keyId === wanted.binding?.keyId;
  const spec = { ...wanted, privateKey: isSame && known !== undefined ? known.spec.privateKey : newKey() };
  if (known === undefined) return (await resources.create(acmeType, { id: acmeId, spec }, { signal })).spec;
  const status = isSame ? known.status : acmeType.initialStatus();
  return (await resources.change(acmeType, acmeId, () => ({ spec, status }), { signal })).spec;
}

/** What failed before may do so no longer. */
async function askAgain({ resources }: Pick<Deps, 'resources'>, signal: AbortSignal): Promise<void> {
  const failed = await resources.list(certificateType, { signal, where: ({ status }) => status.failure !== undefined });
  for (const { id } of failed) {
    await resources.updateStatus(certificateType, id, withoutFailure, { signal }).catch((error: unknown) => {
      if (!hasCode(error, 'not_found')) throw error;
    });
  }
}

function withoutFailure({ status: { failure: _failure, ...rest } }: CertificateResource) {
  return rest;
}

/** Asked for again, one that failed is tried at once; one that there is stays until the new one has come. */
function statusAsked(known: CertificateResource) {
  const { source, domains } = known.spec;
  if (source !== 'own') return withoutFailure(known);
  throw new FlynnError(
    'conflict',
    `${domains[0]} has a certificate that was brought: remove it first, with flynn route cert remove ${domains[0]}`,
  );
}

/** Without what is secret. */
function viewAcme({ directoryUrl, contact, challenge, binding, hook, isAutomatic }: AcmeSpec): AcmeView {
  return {
    directoryUrl,
    contact: [...contact],
    challenge,
    ...(binding === undefined ? {} : { bindingKeyId: binding.keyId }),
    ...(hook === undefined ? {} : { hookUrl: hook.url }),
    isAutomatic,
  };
}
