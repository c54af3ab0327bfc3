/** Where do the packages of an app of Deno come from? Pure. */

/** What the app or the operator names. Deno does not read npm's settings in small letters. */
export function registriesOf(env: Readonly<Record<string, string>>): Record<string, string> {
  const named = {
    NPM_CONFIG_REGISTRY: env['NPM_CONFIG_REGISTRY'] ?? env['npm_config_registry'],
    JSR_URL: env['JSR_URL'],
  };
  return Object.fromEntries(
    Object.entries(named).flatMap(([name, value]) => (value === undefined || value === '' ? [] : [[name, value]])),
  );
}

/**
 * The same for when the app runs: what was fetched is in folders of their names, and without them Deno would look for it
 * elsewhere. No login is written into a slug, and nothing that a shell would take for more than an address.
 */
export function registriesAtRunTime(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(registriesOf(env)).flatMap(([name, value]) => {
      if (!URL.canParse(value)) return [];
      const url = new URL(value);
      url.username = '';
      url.password = '';
      return /^[\w:/.[\]%+~-]+$/.test(url.href) ? [[name, url.href] as const] : [];
    }),
  );
}
