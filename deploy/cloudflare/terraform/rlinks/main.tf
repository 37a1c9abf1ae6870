# One installation of the Worker: its stores, its code, its domain, its secrets. Links are data and are never here.

terraform {
  required_version = ">= 1.5"
  required_providers {
    cloudflare = {
      source  = "cloudflare/cloudflare"
      version = "~> 5.14"
    }
  }
}

locals {
  name      = "rlinks-${var.profile}-${var.environment}"
  is_fabric = var.profile == "fabric"
  is_edge   = var.profile == "edge"
  build     = "${path.module}/../../../../crates/edge/build"

  variables = merge(
    {
      RMAX_PROFILE = var.profile
      RMAX_PRESET  = var.preset
      RMAX_DOMAIN  = join(",", concat([var.hostname], var.more_hostnames))
    },
    { for name, text in { ANALYTICS_ACCOUNT = var.account_id } : name => text if local.is_edge },
  )

  secrets = merge(
    { HASH_KEY = var.hash_key },
    { for name, text in {
      ADMIN_TOKEN     = var.admin_token
      ANALYTICS_TOKEN = var.analytics_token
    } : name => text if local.is_edge },
  )

  namespaces = merge(
    { for name, id in {
      ROUTES = one(cloudflare_workers_kv_namespace.routes[*].id)
      HITS   = one(cloudflare_workers_kv_namespace.hits[*].id)
    } : name => id if local.is_fabric },
    { for name, id in { CACHE_KV = one(cloudflare_workers_kv_namespace.cache[*].id) } : name => id if local.is_edge },
  )

  database_id = one(cloudflare_d1_database.links[*].id)
}

# The stores of profile fabric hold every link and every hit: Terraform must not be able to remove them.
resource "cloudflare_workers_kv_namespace" "routes" {
  count      = local.is_fabric ? 1 : 0
  account_id = var.account_id
  title      = "${local.name}-routes"

  lifecycle {
    prevent_destroy = true
  }
}

resource "cloudflare_workers_kv_namespace" "hits" {
  count      = local.is_fabric ? 1 : 0
  account_id = var.account_id
  title      = "${local.name}-hits"

  lifecycle {
    prevent_destroy = true
  }
}

# A cache: it may go.
resource "cloudflare_workers_kv_namespace" "cache" {
  count      = local.is_edge ? 1 : 0
  account_id = var.account_id
  title      = "${local.name}-cache"
}

# Its tables are made by `wrangler d1 migrations apply`.
resource "cloudflare_d1_database" "links" {
  count      = local.is_edge ? 1 : 0
  account_id = var.account_id
  name       = local.name

  lifecycle {
    prevent_destroy = true
  }
}

resource "cloudflare_worker" "redirects" {
  account_id = var.account_id
  name       = local.name

  observability = {
    enabled = true
  }

  # Only the domain below answers.
  subdomain = {
    enabled          = false
    previews_enabled = false
  }
}

resource "cloudflare_worker_version" "current" {
  account_id         = var.account_id
  worker_id          = cloudflare_worker.redirects.id
  compatibility_date = "2026-07-01"
  main_module        = "index.js"

  modules = [
    {
      name         = "index.js"
      content_file = "${local.build}/index.js"
      content_type = "application/javascript+module"
    },
    {
      name         = "index_bg.wasm"
      content_file = "${local.build}/index_bg.wasm"
      content_type = "application/wasm"
    },
  ]

  bindings = concat(
    [for name, text in local.variables : { type = "plain_text", name = name, text = text }],
    [for name, text in local.secrets : { type = "secret_text", name = name, text = text }],
    [for name, id in local.namespaces : { type = "kv_namespace", name = name, namespace_id = id }],
    [for id in [local.database_id] : { type = "d1", name = "DB", id = id } if local.is_edge],
    [for dataset in ["edge_shortener_events"] : { type = "analytics_engine", name = "ANALYTICS", dataset = dataset } if local.is_edge],
  )
}

resource "cloudflare_workers_deployment" "current" {
  account_id  = var.account_id
  script_name = cloudflare_worker.redirects.name
  strategy    = "percentage"

  versions = [{
    percentage = 100
    version_id = cloudflare_worker_version.current.id
  }]
}

# A custom domain brings its DNS record and its certificate along.
resource "cloudflare_workers_custom_domain" "hostname" {
  account_id = var.account_id
  zone_id    = var.zone_id
  hostname   = var.hostname
  service    = cloudflare_worker.redirects.name

  depends_on = [cloudflare_workers_deployment.current]
}

# Further patterns, such as "www.example.com/*", whose DNS records are there already. List their hosts in more_hostnames as well.
resource "cloudflare_workers_route" "more" {
  for_each = toset(var.more_routes)
  zone_id  = var.zone_id
  pattern  = each.value
  script   = cloudflare_worker.redirects.name
}

resource "cloudflare_workers_cron_trigger" "nightly" {
  count       = local.is_edge ? 1 : 0
  account_id  = var.account_id
  script_name = cloudflare_worker.redirects.name

  schedules = [{
    cron = "17 3 * * *"
  }]
}
