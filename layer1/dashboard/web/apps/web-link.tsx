/** A link to an app itself, over TLS where a certificate is shown for its name. */
import type { Certificate } from '@flynn/controller/certificates/model';
import type { certificates } from '@flynn/controller/certificates/api';
import type { RouteView } from '@flynn/controller/routes/api';
import { useLoaded } from '../parts/loading.ts';
import { useServices } from '../parts/services.ts';
import { mainRoute, urlOf } from './app-url.ts';
import { withTls } from './route-certificate.ts';

const none: readonly Certificate[] = [];

export function useCertificates(): readonly Certificate[] {
  const { api } = useServices();
  const { loaded } = useLoaded('certificates', (signal) =>
    api.call<typeof certificates.list>('GET /certificates', { query: {} }, { signal }),
  );
  return loaded.is === 'ready' ? loaded.value : none;
}

export function WebLink(props: { routes: readonly RouteView[]; known: readonly Certificate[]; class?: string }) {
  const { session } = useServices();
  const route = mainRoute(props.routes, session.cluster.domain);
  if (route === undefined) return null;
  return (
    <a class={props.class} href={urlOf(withTls(route, props.known), session.cluster)} rel="noreferrer" target="_blank">
      {route.domain}
    </a>
  );
}
