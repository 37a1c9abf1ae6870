// What makes the pages quicker to use. Nothing here is needed: every page works without it. Text from elsewhere goes in as text only.
'use strict';
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const one = (selector, from = document) => from.querySelector(selector);
  root.classList.add('js');

  // Where the viewer lives, so that charts have their days.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const [prefix, secure] = location.protocol === 'https:' ? ['__Host-', '; Secure'] : ['', ''];
  if (zone) document.cookie = `${prefix}tz=${encodeURIComponent(zone)}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;

  // A browser that is sent to a part of the page puts the cursor nowhere.
  if (location.hash && document.activeElement === document.body) one('[autofocus]')?.focus();

  // Which colours are chosen, to those who do not see it; and the tab one is at, where not all have room.
  const tellTheme = () => {
    const scheme = getComputedStyle(root).colorScheme;
    all('.themes button').forEach((button) => {
      button.setAttribute('aria-pressed', scheme === button.value || (scheme.includes(' ') && button.value === 'system'));
    });
  };
  tellTheme();
  const tab = one('.tabs [aria-current]');
  if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;

  // Times in the viewer's zone; UTC stays in the title.
  const day = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric' });
  const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  const localize = (from) => all('time[datetime]', from).forEach((time) => {
    const at = new Date(time.dateTime);
    if (isNaN(at)) return;
    time.textContent = (time.dataset.precise === undefined ? day : moment).format(at);
    time.title = at.toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC');
  });
  localize(document);

  // Fields for a time: shown in the viewer's zone, sent in UTC.
  const local = (at) => new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
  all('input[data-utc]').forEach((input) => {
    const at = input.value && new Date(`${input.value}Z`);
    const sent = document.createElement('input');
    Object.assign(sent, { type: 'hidden', name: input.name, value: input.value });
    if (at && !isNaN(at)) input.value = local(at);
    const hint = one(`label[for="${input.id}"] [data-zone]`);
    if (hint) hint.textContent = hint.textContent.replace('UTC', zone || 'your time');
    input.removeAttribute('name');
    input.after(sent);
    input.addEventListener('change', () => {
      const chosen = input.value && new Date(input.value);
      sent.value = chosen && !isNaN(chosen) ? chosen.toISOString().slice(0, 19) : '';
    });
  });

  // A word at the bottom that goes away by itself.
  const toast = (text) => {
    one('.toast')?.remove();
    const note = document.createElement('p');
    note.className = 'toast';
    note.setAttribute('role', 'status');
    note.textContent = text;
    document.body.append(note);
    setTimeout(() => note.remove(), 2500);
  };

  // Over plain http there is no clipboard but the old one, which copies what is marked in a field.
  const copyMarked = (text) => {
    const held = document.activeElement;
    const field = document.createElement('textarea');
    field.className = 'sr';
    field.readOnly = true;
    field.value = text;
    (one('dialog[open]') ?? document.body).append(field);
    field.select();
    let done = false;
    try { done = document.execCommand('copy'); } catch { /* it is not done, then */ }
    field.remove();
    held?.focus?.({ preventScroll: true });
    return done;
  };
  const copy = (text, quietly) => {
    const say = (done) => {
      if (done) toast('Copied');
      else if (!quietly) toast('The browser does not let us copy. Mark the link and copy it yourself.');
    };
    if (!navigator.clipboard) say(copyMarked(text));
    else navigator.clipboard.writeText(text).then(() => true, () => copyMarked(text)).then(say);
  };
  const fresh = one('[data-copy-now]');
  if (fresh) copy(fresh.dataset.copy, true);

  const showQr = (link) => {
    const dialog = one('#qr');
    if (!dialog) return false;
    const address = new URL(link.href);
    const image = new Image(256, 256);
    image.alt = `QR code of ${link.dataset.qr}`;
    image.src = address.href;
    one('.qr-frame', dialog).replaceChildren(image);
    one('h2', dialog).textContent = link.dataset.qr;
    const files = ['svg', 'png'].map((format) => {
      const file = document.createElement('a');
      address.searchParams.set('format', format);
      address.searchParams.set('size', '1024');
      Object.assign(file, { href: address.href, download: `qr.${format}`, className: 'button quiet small' });
      file.textContent = format.toUpperCase();
      return file;
    });
    one('.qr-files', dialog).replaceChildren(...files);
    dialog.showModal();
    return true;
  };

  document.addEventListener('click', (event) => {
    const target = event.target.closest('[data-copy], [data-copy-of], [data-qr], [data-tick-all], [data-untick]');
    if (!target) {
      all('details.menu[open]').forEach((menu) => menu.contains(event.target) || menu.removeAttribute('open'));
      return;
    }
    if (target.dataset.copy) copy(target.dataset.copy);
    if (target.dataset.copyOf) copy(one(`#${target.dataset.copyOf}`).value);
    if (target.dataset.qr && showQr(target)) event.preventDefault();
    if (target.dataset.tickAll !== undefined) {
      all('tbody .tick input').forEach((box) => { box.checked = target.checked; });
      tell();
    }
    if (target.dataset.untick !== undefined) {
      all('.tick input').forEach((box) => { box.checked = false; });
      tell();
      one('[data-tick-all]')?.focus();
    }
  });

  // How many links are ticked.
  const ticked = () => all('tbody .tick input:checked').length;
  const tell = () => {
    const place = one('[data-ticked]');
    if (place) place.textContent = `${ticked()} ticked`;
  };
  document.addEventListener('change', (event) => { if (event.target.closest('.tick')) tell(); });
  // A browser that brings a page back brings its ticks along.
  addEventListener('pageshow', tell);

  document.addEventListener('submit', async (event) => {
    const form = event.target;
    if (form.dataset.theme !== undefined && event.submitter) {
      event.preventDefault();
      const body = new URLSearchParams(new FormData(form, event.submitter));
      await fetch(form.action, { method: 'POST', body, redirect: 'manual' });
      const old = one('#theme');
      const style = old.cloneNode();
      style.href = `/admin/theme.css?${Date.now()}`;
      style.addEventListener('load', () => { old.remove(); tellTheme(); });
      old.after(style);
    }
    if (form.dataset.bulk !== undefined && event.submitter) {
      if (!one('.tick input:checked', form)) {
        event.preventDefault();
        toast('Tick the links first');
      } else if (['tag', 'untag'].includes(event.submitter.value) && !form.elements.new_tag.value.trim()) {
        event.preventDefault();
        toast('Write the tag first');
        form.elements.new_tag.focus();
      } else if (event.submitter.value === 'delete' && !form.elements.sure) {
        event.preventDefault();
        const dialog = one('#sure');
        one('h2', dialog).textContent = ticked() === 1 ? 'Delete 1 link?' : `Delete ${ticked()} links?`;
        dialog.returnValue = '';
        dialog.showModal();
        dialog.addEventListener('close', () => {
          if (dialog.returnValue !== 'yes') return;
          const sure = document.createElement('input');
          Object.assign(sure, { type: 'hidden', name: 'sure', value: 'yes' });
          form.append(sure);
          form.requestSubmit(event.submitter);
        }, { once: true });
      }
    }
  });

  // Search as one types: the list alone comes anew, and the address follows.
  const search = one('[data-live-search]');
  if (search) {
    let asked = 0;
    let waiting;
    let shown = location.search;
    const look = async (note) => {
      const number = ++asked;
      const query = new URLSearchParams([...new FormData(search)].filter(([, value]) => value));
      const part = new URLSearchParams(query);
      part.set('part', 'list');
      const answer = await fetch(`/admin?${part}`, { headers: { Accept: 'text/html' } }).catch(() => null);
      if (number !== asked) return;
      if (!answer) { toast('No connection. Try again.'); return; }
      if (!answer.ok || answer.redirected) { search.submit(); return; }
      const parsed = new DOMParser().parseFromString(await answer.text(), 'text/html');
      if (number !== asked) return;
      const list = one('#list');
      list.replaceChildren(...parsed.body.childNodes);
      localize(list);
      one('[data-found]').textContent = one('.count, .empty h2', list)?.textContent ?? '';
      note?.call(history, null, '', query.size ? `/admin?${query}` : '/admin');
      shown = location.search;
    };
    // What is chosen is a step one can go back from; letters are not.
    search.addEventListener('input', (event) => {
      const isChosen = event.target.localName === 'select';
      clearTimeout(waiting);
      waiting = setTimeout(look, isChosen ? 0 : 150, isChosen ? history.pushState : history.replaceState);
    });
    search.addEventListener('submit', (event) => { event.preventDefault(); clearTimeout(waiting); look(history.replaceState); });
    addEventListener('popstate', () => {
      if (location.search === shown) return;
      const wanted = new URLSearchParams(location.search);
      if (wanted.has('cursor')) { location.reload(); return; }
      for (const field of search.elements) if (field.name) field.value = wanted.get(field.name) ?? '';
      look();
    });
  }

  // Keys.
  const move = (step) => {
    const links = all('[data-row] .short');
    if (!links.length) return false;
    const here = links.indexOf(document.activeElement?.closest('[data-row]')?.querySelector('.short'));
    const next = here < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(here + step, 0), links.length - 1);
    links[next].focus();
    return true;
  };
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || one('dialog[open]')) return;
    const typing = event.target.closest?.('input:not([type=checkbox]), textarea, select, [contenteditable]');
    if (typing) {
      if (event.key === 'Escape') event.target.blur();
      if (event.key === 'ArrowDown' && event.target.type === 'search' && move(1)) event.preventDefault();
      return;
    }
    const row = document.activeElement?.closest?.('[data-row]');
    const acts = {
      '?': () => one('#help')?.showModal() ?? true,
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      y: () => one('[data-copy]', row ?? document)?.click(),
      x: () => one('.tick input', row ?? document.createElement('p'))?.click(),
    };
    const field = all('[data-key]').find((input) => input.dataset.key === event.key);
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    } else if (acts[event.key]) {
      if (acts[event.key]() !== false) event.preventDefault();
    }
  });

  // Clicks as they happen.
  const live = one('[data-live]');
  if (live && window.EventSource) {
    const state = one('[data-live-state]');
    const source = new EventSource('/api/v1/stats/live');
    source.addEventListener('open', () => { state.textContent = 'Live'; });
    source.addEventListener('error', () => {
      state.textContent = source.readyState === EventSource.CLOSED ? 'Not live' : 'Not live, reconnecting…';
    });
    source.addEventListener('click', (event) => {
      const click = JSON.parse(event.data);
      if (String(click.link_id) !== live.dataset.live) return;
      one('[data-live-none]')?.remove();
      const time = document.createElement('time');
      time.dateTime = click.ts;
      time.dataset.precise = '';
      const row = live.tBodies[0].insertRow(0);
      row.className = 'new';
      row.insertCell().append(time);
      const texts = [
        [click.country, click.referrer].filter(Boolean).join(' · '),
        [!click.bot && click.device, click.browser, click.system].filter(Boolean).join(', '),
        [click.utm_source, click.utm_medium, click.utm_campaign].filter(Boolean).join(' / '),
      ];
      texts.forEach((text) => { row.insertCell().textContent = text; });
      if (click.bot) {
        const badge = document.createElement('span');
        badge.className = 'badge';
        badge.textContent = 'bot';
        row.cells[2].append(' ', badge);
      }
      localize(row);
      while (live.tBodies[0].rows.length > 50) live.tBodies[0].deleteRow(-1);
    });
    addEventListener('pagehide', () => source.close());
  }
})();
